package config

import "errors"

// ForDoctor is FromEnvironment without what only serving takes: port, user names and passwords.
func ForDoctor(getenv func(string) string) (Config, error) {
	r, services := newReader(getenv)
	cfg := Config{CatalogPath: r.value("CATALOG"), Launcher: r.launcher(), LogLevel: r.level("LOG_LEVEL"),
		PostgresURL: r.postgresURL(services), Keys: r.keyset(), Shared: r.sharedServers(services)}
	return cfg, errors.Join(r.problems...)
}
