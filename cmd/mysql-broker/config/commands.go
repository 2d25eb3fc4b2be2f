package config

import (
	"errors"
	"slices"
	"time"
)

// Needs are the parts of the configuration that a command reads, beside PostgreSQL and the keyset.
type Needs []part

// part is variables that are read together.
type part struct {
	variables []string
	read      func(*reader, services, *Config)
}

// common is what `serve` reads as commands do.
var common = slices.Concat(ForDoctor, Needs{movedData})

// What commands need that only read or change what is stored, that seal it or read backups too, that use dedicated
// servers, and so on.
var (
	Stored            = Needs{}
	StoredWithBackups = Needs{storedBackups}
	Dedicated         = Needs{dedicated, anyDedicated}
	ForOperator       = Needs{catalogPath, allShared, movedData}
	ForRotation       = slices.Concat(ForOperator, Needs{storedCredentials})
	ForBackups        = Needs{catalogPath, allShared, storedBackups}
	ForDoctor         = Needs{catalogPath, logLevel, dedicated, allShared, storedCredentials, storedBackups}
	ForUpgrade        = Needs{catalogPath, logLevel, dedicated, storedBackups, upgradesOfPlatform}
)

var (
	catalogPath = part{[]string{"CATALOG"}, func(r *reader, _ services, c *Config) { c.CatalogPath = r.value("CATALOG") }}
	logLevel    = part{[]string{"LOG_LEVEL"}, func(r *reader, _ services, c *Config) { c.LogLevel = r.level("LOG_LEVEL") }}
	movedData   = part{[]string{"KEEP_MOVED_HOURS"}, func(r *reader, _ services, c *Config) {
		c.KeepMoved = time.Duration(r.number("KEEP_MOVED_HOURS", 720)) * time.Hour
	}}
	allShared = part{[]string{"MYSQL_SERVERS", "ANSWER_TIMEOUT"}, func(r *reader, bound services, c *Config) {
		c.AnswerTime = r.duration("ANSWER_TIMEOUT", 30*time.Second, false, "1s to 30s, such as 2s")
		c.Shared = r.sharedServers(bound, c.AnswerTime)
	}}
	dedicated = part{namesOf(launcherVariables()), func(r *reader, bound services, c *Config) {
		c.Launchers = r.launchers(bound)
	}}
	anyDedicated = part{nil, func(r *reader, _ services, c *Config) {
		if len(c.Launchers) == 0 && len(r.problems) == 0 {
			r.fail(errors.New("LAUNCHER is none: run this on the host of the dedicated servers, with the broker's environment"))
		}
	}}
	storedBackups = part{namesOf(backupVariables), func(r *reader, bound services, c *Config) {
		c.Backups = r.backups(bound)
	}}
	storedCredentials = part{namesOf(credHubVariables), func(r *reader, bound services, c *Config) {
		c.CredHub = r.credHub(bound)
	}}
	upgradesOfPlatform = part{
		[]string{"CLOUD_CONTROLLER_URL", "CLOUD_CONTROLLER_CLIENT", "CLOUD_CONTROLLER_CLIENT_SECRET"},
		func(r *reader, _ services, c *Config) { c.CloudController = r.cloudController() }}
)

// Read reads the environment. The error has one line for each problem.
func (n Needs) Read(getenv func(string) string) (Config, error) {
	r, bound := newReader(getenv)
	cfg := n.read(r, bound)
	return cfg, errors.Join(r.problems...)
}

func (n Needs) read(r *reader, bound services) Config {
	cfg := Config{PostgresURL: r.postgresURL(bound), Keys: r.keyset()}
	for _, p := range n {
		p.read(r, bound, &cfg)
	}
	return cfg
}

// Variables names the variables that Read reads.
func (n Needs) Variables() []string {
	names := []string{"DATABASE_URL", "DATABASE_SERVICE", "ENCRYPTION_KEYSET"}
	for _, p := range n {
		names = append(names, p.variables...)
	}
	return names
}

func namesOf(all []Variable) (names []string) {
	for _, v := range all {
		names = append(names, v.Name)
	}
	return names
}

// PostgresURL reads only the variables for PostgreSQL.
func PostgresURL(getenv func(string) string) (string, error) {
	r, services := newReader(getenv)
	url := r.postgresURL(services)
	return url, errors.Join(r.problems...)
}
