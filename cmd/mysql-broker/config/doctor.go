package config

import (
	"errors"

	"mysql-broker/store"
)

// ForDoctor is FromEnvironment without what only serving takes: port, user names and passwords.
func ForDoctor(getenv func(string) string) (Config, error) {
	r := &reader{getenv: getenv}
	services, err := boundServices(getenv("VCAP_SERVICES"))
	r.note(err)
	cfg := Config{CatalogPath: r.value("CATALOG"), Launcher: r.launcher(), LogLevel: r.level("LOG_LEVEL"),
		PostgresURL: r.postgresURL(services), Keys: r.keyset(), Shared: r.sharedServers(services)}
	return cfg, errors.Join(r.problems...)
}

func (r *reader) keyset() *store.Keyring {
	text := r.value("ENCRYPTION_KEYSET")
	if text == "" {
		r.note(errors.New("ENCRYPTION_KEYSET is not set; `mysql-broker keyset` makes one"))
		return nil
	}
	keys, err := store.ParseKeyset(text)
	r.note(prefixed("ENCRYPTION_KEYSET", err))
	return keys
}
