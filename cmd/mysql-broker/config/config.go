// Package config reads the configuration of `serve` from the environment: plain variables, and on Cloud Foundry
// VCAP_SERVICES and VCAP_APPLICATION. It reports all problems together, and never quotes a secret.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mysql-broker/broker/httpapi"
	"mysql-broker/cmd/mysql-broker/tracing"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// Config is the configuration of `serve`.
type Config struct {
	Bind     string // address to listen on, "" for all
	Port     int
	Username string
	Password string
	// PreviousPassword is accepted too, unless it is empty: platforms send it until they have Password.
	PreviousPassword string

	PostgresURL string
	Keys        *store.Keyring
	CatalogPath string
	Shared      []shared.Config
	Launchers   []launchers.Named // none: dedicated plans are not offered
	AnswerTime  time.Duration     // for a server or PostgreSQL, where somebody waits: also that of each in Shared
	LogLevel    slog.Level
	Application Application
	TLS         TLS
	ExternalURL *url.URL // the broker's URL for browsers, nil if not known
	SignIn      SignIn
	CATrusted   bool // the platform makes applications trust the CAs of MySQL servers
	Proxies     httpapi.Proxies
	Pprof       string // loopback address and port for profiles, "" for none
	Tracing     bool   // whether to send traces
	Traces      tracing.Config
	Quota       time.Duration // between two measurements of storage; 0: quotas are not enforced
	ArchiveEach time.Duration // between two rounds of archiving binary logs
	Backups     Backups
	CredHub     CredHub
	// CloudController is only read for `upgrade`.
	CloudController CloudController
	MemoryLimit     int64         // bytes that this process may have; 0 for no limit
	KeepAudit       time.Duration // how long the record of who did what is kept
	KeepMoved       time.Duration // how long data can be read where it was before it was moved

	// Dial connects to PostgreSQL and to dedicated servers; to a shared server, see shared.Config.Admin. It is not read
	// from the environment: tests set it, to cut a broker off.
	Dial mysqladmin.Dialer
}

// Variable documents one environment variable.
type Variable struct {
	Name    string
	Default string // "" if it is required or has no default
	Meaning string
}

// Variables are all variables that FromEnvironment reads, in the order in which help shows them.
var Variables = slices.Concat([]Variable{
	{"BROKER_USERNAME", "", "user name that platforms send; required"},
	{"BROKER_PASSWORD", "", "password that platforms send; required"},
	{"BROKER_PASSWORD_PREVIOUS", "", "a second accepted password, while platforms change to BROKER_PASSWORD"},
	{"DATABASE_URL", "", "PostgreSQL URL; required unless a bound service has it"},
	{"DATABASE_SERVICE", "mysql-broker-db", "name of the bound service with the PostgreSQL URL; " +
		"if no service has this name, the one tagged postgresql or postgres"},
	{"ENCRYPTION_KEYSET", "", "keyset that encrypts stored passwords, from `mysql-broker keyset`; required"},
	{"MYSQL_SERVERS", "", "JSON array of shared servers, each {name, uri, ca_certificate, host, port, max_databases, " +
		"exclusive}; " +
		"the broker adds bound user-provided services tagged mysql-server or named mysql-server…"},
	{"PLATFORM_TRUSTS_CA", "false", "true: applications trust the CAs of all MySQL servers, so jdbcUrl makes " +
		"drivers verify servers"},
	{"PORT", "8080", "port to listen on"},
	{"ADDRESS", "", "host to listen on, such as 127.0.0.1, ::1 or localhost; default: every address of this host"},
	{"TLS_CERTIFICATE", "", "path of a PEM file with the certificate and its chain, to serve HTTPS instead of HTTP; " +
		"the broker reads it again when it changes"},
	{"TLS_KEY", "", "path of a PEM file with the certificate's private key"},
	{"EXTERNAL_URL", "", "the broker's URL for browsers, such as https://mysql-broker.example.com; default: on Cloud " +
		"Foundry, the application's first route"},
	{"DASHBOARD_CLIENT_ID", "", "name of the client that Cloud Controller creates at UAA for the dashboard, unique " +
		"there; the catalog shows it"},
	{"DASHBOARD_CLIENT_SECRET", "", "that client's secret; `openssl rand -hex 24` creates one"},
	{"OIDC_CLIENT_ID", "", "instead of DASHBOARD_CLIENT_ID, an existing client of an OpenID provider"},
	{"OIDC_CLIENT_SECRET", "", "that client's secret"},
	{"OIDC_ISSUER", "", "URL of the OpenID provider; default: the UAA that Cloud Controller names"},
	{"OIDC_SCOPES", "", "scopes to request, separated by spaces; default: " +
		"openid cloud_controller_service_permissions.read, or openid profile without a Cloud Controller"},
	{"CLOUD_CONTROLLER_URL", "", "the Cloud Controller that decides what a developer sees, such as " +
		"https://api.example.com; default: on Cloud Foundry, its own"},
	{"CLOUD_CONTROLLER_CLIENT", "", "a client of UAA with the authority cloud_controller.admin, for `mysql-broker " +
		"upgrade` alone"},
	{"CLOUD_CONTROLLER_CLIENT_SECRET", "", "that client's secret"},
	{"DASHBOARD_OPERATOR_GROUP", "", "the scope, group or role in the tokens of operators, who see everything"},
	{"TRUSTED_PROXIES", "", "addresses and networks of proxies, separated by commas, whose X-Forwarded-For is trusted " +
		"when failed logins are counted; on Cloud Foundry, the router's always is"},
	{"CATALOG", "catalog.yml", "path of the catalog"},
}, launcherVariables(), backupVariables, credHubVariables, []Variable{
	{"QUOTA_INTERVAL", "1m", "how often storage is measured and quotas are enforced, from 1s to 1h; 0 turns both off " +
		"and removes restrictions"},
	{"KEEP_MOVED_HOURS", "24", "for how many hours, from 1 to 720, bindings can read the data of a moved instance at " +
		"its old address"},
	{"KEEP_AUDIT_DAYS", "365", "for how many days, from 1 to 3650, the broker keeps the record of who did what"},
	{"ANSWER_TIMEOUT", "2s", "how long, from 1s to 30s, a server or PostgreSQL may take to respond where somebody " +
		"waits, before it counts as silent"},
	{"LOG_LEVEL", "info", "debug, info, warn or error"},
	{"PPROF_ADDRESS", "", "loopback address and port for Go's profiles, such as 127.0.0.1:6060; everyone who can reach " +
		"it can read them; default: no profiles"},
	{"OTEL_EXPORTER_OTLP_ENDPOINT", "", "URL of an OpenTelemetry collector for OTLP over HTTP, such as " +
		"http://127.0.0.1:4318, to which traces are sent; default: no traces. OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and " +
		"the other variables of OpenTelemetry's SDK work too"},
	{"OTEL_TRACES_EXPORTER", "", "none: no traces; otlp: traces, to http://127.0.0.1:4318 if no other " +
		"URL is given; default: traces if there is a URL"},
})

// FromEnvironment reads the configuration. The error has one line for each problem.
func FromEnvironment(getenv func(string) string) (Config, error) {
	r, services := newReader(getenv)
	application, err := application(getenv("VCAP_APPLICATION"))
	r.fail(err)
	cfg := common.read(r, services)
	cfg.Username, cfg.Password = r.required("BROKER_USERNAME"), r.required("BROKER_PASSWORD")
	cfg.PreviousPassword = r.value("BROKER_PASSWORD_PREVIOUS")
	cfg.Application, cfg.TLS = application, r.tls()
	cfg.ExternalURL = r.externalURL(application)
	cfg.CATrusted = r.flag("PLATFORM_TRUSTS_CA")
	cfg.Proxies = httpapi.Proxies{Nearest: getenv("VCAP_APPLICATION") != "", Trusted: r.networks("TRUSTED_PROXIES")}
	cfg.Pprof = r.loopback("PPROF_ADDRESS")
	cfg.Quota = r.duration("QUOTA_INTERVAL", time.Hour, true, "1s to 1h, such as 1m, or 0")
	cfg.ArchiveEach = r.duration("ARCHIVE_INTERVAL", 10*time.Minute, false, "1s to 10m, such as 1m")
	cfg.KeepAudit = time.Duration(r.number("KEEP_AUDIT_DAYS", 3650)) * 24 * time.Hour
	cfg.Bind, cfg.Port = r.value("ADDRESS"), r.port("PORT")
	cfg.SignIn = r.signIn(application, cfg.ExternalURL)
	if strings.Contains(cfg.Username, ":") {
		r.fail(errors.New("BROKER_USERNAME has a colon, which basic authentication cannot send"))
	}
	cfg.Traces, cfg.Tracing, err = tracing.FromEnvironment(getenv)
	r.fail(err)
	if len(cfg.Shared) == 0 && len(cfg.Launchers) == 0 && len(r.problems) == 0 {
		r.fail(errors.New("there is nowhere to create databases: set MYSQL_SERVERS, bind a service tagged mysql-server, " +
			"or set LAUNCHER=process"))
	}
	return cfg, errors.Join(r.problems...)
}

// duration reads a duration from a second to most or, if it can be off, 0. form says that to users.
func (r *reader) duration(name string, most time.Duration, off bool, form string) time.Duration {
	d, err := time.ParseDuration(r.value(name))
	if err != nil || (d < time.Second || d > most) && !(off && d == 0) {
		r.fail(fmt.Errorf("%s is not a duration from %s", name, form))
	}
	return d
}

func (r *reader) number(name string, most int) int {
	n, err := strconv.Atoi(r.value(name))
	if err != nil || n < 1 || n > most {
		r.fail(fmt.Errorf("%s is not a number from 1 to %d", name, most))
	}
	return n
}

func (r *reader) keyset() *store.Keyring {
	text := r.value("ENCRYPTION_KEYSET")
	if text == "" {
		r.fail(errors.New("ENCRYPTION_KEYSET is not set; `mysql-broker keyset` creates one"))
		return nil
	}
	keys, err := store.ParseKeyset(text)
	r.fail(prefixed("ENCRYPTION_KEYSET", err))
	return keys
}

func (r *reader) postgresURL(services services) string {
	url := cmp.Or(r.value("DATABASE_URL"), services.postgresURL(r.value("DATABASE_SERVICE")))
	if url == "" {
		r.fail(errors.New("DATABASE_URL is not set, and no bound service has a PostgreSQL URL"))
	} else {
		r.fail(prefixed("DATABASE_URL, or the URL of the bound service", store.CheckURL(url)))
	}
	return url
}

// reader collects the problems of the variables it reads.
type reader struct {
	getenv   func(string) string
	problems []error
}

// newReader also returns the bound services. Outside Cloud Foundry there are none.
func newReader(getenv func(string) string) (*reader, services) {
	r := &reader{getenv: getenv}
	bound, err := boundServices(getenv("VCAP_SERVICES"))
	r.fail(err)
	return r, bound
}

// fail adds an error, if there is one, to those that the broker reports at its start.
func (r *reader) fail(err error) {
	if err != nil {
		r.problems = append(r.problems, err)
	}
}

func prefixed(variable string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", variable, err)
}

// value returns a variable or its documented default.
func (r *reader) value(name string) string {
	for _, v := range Variables {
		if v.Name == name {
			return cmp.Or(r.getenv(name), v.Default)
		}
	}
	panic("undocumented variable " + name)
}

func (r *reader) required(name string) string {
	v := r.value(name)
	if v == "" {
		r.fail(fmt.Errorf("%s is not set", name))
	}
	return v
}

func (r *reader) port(name string) int {
	port, err := strconv.Atoi(r.value(name))
	if err != nil || port < 0 || port > 65535 {
		r.fail(fmt.Errorf("%s is not a port number", name))
	}
	return port
}

func (r *reader) flag(name string) bool {
	value := r.value(name)
	if value != "true" && value != "false" {
		r.fail(fmt.Errorf("%s is neither true nor false", name))
	}
	return value == "true"
}

func (r *reader) level(name string) (level slog.Level) {
	if level.UnmarshalText([]byte(r.value(name))) != nil {
		r.fail(fmt.Errorf("%s is not one of debug, info, warn, error", name))
	}
	return level
}

// sharedServers reads MYSQL_SERVERS and the bound services that describe a server.
func (r *reader) sharedServers(services services, answerTime time.Duration) []shared.Config {
	described, err := describedServers(r.value("MYSQL_SERVERS"))
	r.fail(prefixed("MYSQL_SERVERS", err))
	bound, err := services.mysqlServers()
	r.fail(err)
	described = append(described, bound...)
	var all []shared.Config
	names := map[string]bool{}
	for _, d := range described {
		c, err := d.config()
		if err != nil {
			r.fail(fmt.Errorf("shared server %q: %w", d.Name, err))
			continue
		}
		if names[d.Name] {
			r.fail(fmt.Errorf("shared server %q is described twice", d.Name))
		}
		names[d.Name], c.AnswerTime = true, answerTime
		all = append(all, c)
	}
	return all
}
