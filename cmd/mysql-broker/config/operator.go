package config

import "errors"

// ForOperator is ForDoctor without the launcher: what it takes to look at what is recorded and at the shared servers.
func ForOperator(getenv func(string) string) (Config, error) {
	r, services := newReader(getenv)
	cfg := Config{CatalogPath: r.value("CATALOG"), PostgresURL: r.postgresURL(services), Keys: r.keyset(),
		Shared: r.sharedServers(services)}
	return cfg, errors.Join(r.problems...)
}
