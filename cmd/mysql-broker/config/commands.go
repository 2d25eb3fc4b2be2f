package config

import "errors"

// ForDoctor is FromEnvironment without the variables that only serving needs: port, user names and passwords.
func ForDoctor(getenv func(string) string) (Config, error) {
	r, services := newReader(getenv)
	cfg := Config{CatalogPath: r.value("CATALOG"), Launchers: r.launchers(services), LogLevel: r.level("LOG_LEVEL"),
		PostgresURL: r.postgresURL(services), Keys: r.keyset(), Shared: r.sharedServers(services, r.answerTime()),
		CredHub: r.credHub(services), Backups: r.backups(services)}
	return cfg, errors.Join(r.problems...)
}

// ForOperator reads what it takes to look at what is recorded and at the shared servers.
func ForOperator(getenv func(string) string) (Config, error) {
	r, services := newReader(getenv)
	cfg := Config{CatalogPath: r.value("CATALOG"), PostgresURL: r.postgresURL(services), Keys: r.keyset(),
		Shared: r.sharedServers(services, r.answerTime()), KeepMoved: r.keepMoved()}
	return cfg, errors.Join(r.problems...)
}

// ForRotation is ForOperator with CredHub.
func ForRotation(getenv func(string) string) (Config, error) {
	cfg, err := ForOperator(getenv)
	r, services := newReader(getenv)
	r.problems = nil // ForOperator has those of the services
	cfg.CredHub = r.credHub(services)
	return cfg, errors.Join(append(r.problems, err)...)
}

// ForUpgrade is ForDoctor with where backups are, and who upgrades instances of Cloud Foundry.
func ForUpgrade(getenv func(string) string) (Config, error) {
	r, services := newReader(getenv)
	cfg := Config{CatalogPath: r.value("CATALOG"), Launchers: r.launchers(services), LogLevel: r.level("LOG_LEVEL"),
		PostgresURL: r.postgresURL(services), Keys: r.keyset(), Backups: r.backups(services),
		CloudController: r.cloudController()}
	return cfg, errors.Join(r.problems...)
}

// PostgresURL reads only the variables for PostgreSQL.
func PostgresURL(getenv func(string) string) (string, error) {
	r, services := newReader(getenv)
	url := r.postgresURL(services)
	return url, errors.Join(r.problems...)
}

// Stored reads only the variables for work on the records: PostgresURL and Keys.
func Stored(getenv func(string) string) (Config, error) {
	r, services := newReader(getenv)
	cfg := Config{PostgresURL: r.postgresURL(services), Keys: r.keyset()}
	return cfg, errors.Join(r.problems...)
}

// Dedicated reads the variables of Stored and those of the launcher, which must be configured.
func Dedicated(getenv func(string) string) (Config, error) {
	r, services := newReader(getenv)
	cfg := Config{PostgresURL: r.postgresURL(services), Keys: r.keyset(), Launchers: r.launchers(services)}
	if len(cfg.Launchers) == 0 && len(r.problems) == 0 {
		r.note(errors.New("LAUNCHER is none: run this on the host of the dedicated servers, with the broker's environment"))
	}
	return cfg, errors.Join(r.problems...)
}

// StoredWithBackups reads the variables of Stored, and where backups are.
func StoredWithBackups(getenv func(string) string) (Config, error) {
	r, services := newReader(getenv)
	cfg := Config{PostgresURL: r.postgresURL(services), Keys: r.keyset(), Backups: r.backups(services)}
	return cfg, errors.Join(r.problems...)
}

// ForBackups is ForOperator with where backups are.
func ForBackups(getenv func(string) string) (Config, error) {
	r, services := newReader(getenv)
	cfg := Config{CatalogPath: r.value("CATALOG"), PostgresURL: r.postgresURL(services), Keys: r.keyset(),
		Shared: r.sharedServers(services, r.answerTime()), Backups: r.backups(services)}
	return cfg, errors.Join(r.problems...)
}
