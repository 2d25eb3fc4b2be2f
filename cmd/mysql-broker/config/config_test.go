package config_test

import (
	"maps"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/store"
	"mysql-broker/test/testdrive"
)

const secret = "hunter2hunter2"

// certificate is of a CA whose key is nowhere.
const certificate = `-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUM77IexvplIlVaGpCw7QUiuZfpbkwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjEwNDA5MjlaGA8yMTI2MTAyODA0MDky
OVowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFXn
10i66RxmY5kYGE9XiX6medMiLv2PXjtpfBBttbq8AwZm0RD5govbJiL5ZXGd25vJ
qpOTuSlx1i0xIh+cCJ+jUzBRMB0GA1UdDgQWBBTnaVSWiIxITGJ0JIDKFagrfvIk
6zAfBgNVHSMEGDAWgBTnaVSWiIxITGJ0JIDKFagrfvIk6zAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIHY2w00IbjxaxPBKVR+dkTi1nCdTp76m+6Hk
9gj87ZxdAiEAkThaoLDPZGSBrIut0rSi1o/VzBnOE6AFloZgH8UxUKk=
-----END CERTIFICATE-----
`

// complete returns a valid environment.
func complete(t *testing.T) map[string]string {
	keyset, err := store.NewKeyset()
	require.NoError(t, err)
	return map[string]string{
		"BROKER_USERNAME": "platform", "BROKER_PASSWORD": secret, "ENCRYPTION_KEYSET": keyset,
		"DATABASE_URL":  "postgres://broker:" + secret + "@db/broker",
		"MYSQL_SERVERS": `[{"name":"a","uri":"mysql://admin:` + secret + `@a.internal:3306/","max_databases":7}]`,
	}
}

func read(t *testing.T, env map[string]string) (config.Config, error) {
	return config.FromEnvironment(func(name string) string { return env[name] })
}

// readWith reads a valid environment with some values changed.
func readWith(t *testing.T, change map[string]string) (config.Config, error) {
	env := complete(t)
	maps.Copy(env, change)
	return read(t, env)
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := read(t, complete(t))
	require.NoError(t, err)
	assert.True(t, cfg.Port == 8080 && cfg.CatalogPath == "catalog.yml" && len(cfg.Launchers) == 0, "%+v", cfg)
	require.Len(t, cfg.Shared, 1, "%d shared servers", len(cfg.Shared))
	s := cfg.Shared[0]
	assert.True(t, s.Host == "a.internal" && s.Port == 3306 && s.MaxDatabases == 7 && s.Admin.User == "admin",
		"shared server %+v", s)
}

// Traces are sent if a standard variable says so, and none turns them off.
func TestTracing(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, tt := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"OTEL_SERVICE_NAME": "broker"}, false},
		{map[string]string{endpoint: "http://collector:4318"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector/v1/traces"}, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none", endpoint: "http://collector:4318"}, false},
		{map[string]string{"OTEL_SDK_DISABLED": "true", endpoint: "http://collector:4318"}, false},
		{map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false},
		{map[string]string{endpoint: "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, true},
	} {
		cfg, err := readWith(t, tt.env)
		assert.True(t, err == nil && cfg.Tracing == tt.want, "%v: %t, %v", tt.env, cfg.Tracing, err)
	}
}

// expectProblems expects an error about a changed environment, with all these words and without the secret.
func expectProblems(t *testing.T, what string, change map[string]string, want []string) {
	_, err := readWith(t, change)
	for _, words := range want {
		require.ErrorContains(t, err, words, what)
	}
	assert.NotContains(t, err.Error(), secret, "%s: a secret is quoted", what)
}

func TestEveryProblemIsReportedAtOnceAndNoSecret(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change map[string]string
		want   []string
	}{
		{"nothing is set", map[string]string{"BROKER_USERNAME": "", "BROKER_PASSWORD": "", "ENCRYPTION_KEYSET": "",
			"DATABASE_URL": "", "MYSQL_SERVERS": ""},
			[]string{"BROKER_USERNAME is not set", "BROKER_PASSWORD is not set", "ENCRYPTION_KEYSET is not set",
				"DATABASE_URL is not set"}},
		{"numbers", map[string]string{"PORT": "http", "LAUNCHER": "process", "LAUNCHER_PORTS": "9-1",
			"LAUNCHER_TIMEOUT": "-1s", "LAUNCHER_BIND": "db.example.com"},
			[]string{"PORT is not", "LAUNCHER_PORTS is not", "LAUNCHER_TIMEOUT is not", "LAUNCHER_BIND is not"}},
		{"words", map[string]string{"LAUNCHER": "docker", "LOG_LEVEL": "loud"},
			[]string{"LAUNCHER is not one of", "LOG_LEVEL is not one of"}},
		{"launchers that cannot be told apart", map[string]string{
			"LAUNCHER": "rocket,moon=process,moon=process,Mars=process,", "LAUNCHER_DIR": "/var/lib/moon", "PORT": "http"},
			[]string{`no kind "rocket"`, `two launchers "moon"`, `the name "Mars"`, `no kind ""`,
				"LAUNCHER_DIR has no effect", "PORT is not"}},
		{"launchers in each other's way", map[string]string{"LAUNCHER": "a=process, b=process, c-1=process,d=process",
			"LAUNCHER_A_DIR": "/var/lib/a", "LAUNCHER_B_DIR": "/var/lib/a", "LAUNCHER_C_1_PORTS": "9-1"},
			[]string{"a and b cannot be used side by side: both have the directory /var/lib/a: set LAUNCHER_B_DIR",
				"LAUNCHER_C_1_PORTS is not", "a and d cannot be used side by side: their ports overlap: set LAUNCHER_D_PORTS"}},
		{"traces in a way that there is not", map[string]string{"OTEL_TRACES_EXPORTER": "zipkin",
			"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318",
			"OTEL_EXPORTER_OTLP_HEADERS": "api-key " + secret, "OTEL_EXPORTER_OTLP_TIMEOUT": "10s"},
			[]string{"OTEL_TRACES_EXPORTER is not one of otlp, none", "OTEL_EXPORTER_OTLP_PROTOCOL is set to what",
				"OTEL_EXPORTER_OTLP_ENDPOINT is not a URL", "OTEL_EXPORTER_OTLP_HEADERS is not a list",
				"OTEL_EXPORTER_OTLP_TIMEOUT is not a number"}},
		{"a flag that is none", map[string]string{"PLATFORM_TRUSTS_CA": "yes"}, []string{"PLATFORM_TRUSTS_CA is neither"}},
		{"HTTPS by half", map[string]string{"TLS_CERTIFICATE": "/c.pem"}, []string{"TLS_KEY is not"}},
		{"HTTPS by the other half", map[string]string{"TLS_KEY": "/k.pem"}, []string{"TLS_CERTIFICATE is not"}},
		{"HTTPS with files that are not there", map[string]string{"TLS_CERTIFICATE": "/no/c.pem", "TLS_KEY": "/no/k.pem",
			"PORT": "x"}, []string{"TLS_CERTIFICATE and TLS_KEY: ", "/no/c.pem", "PORT is not"}},
		{"proxies", map[string]string{"TRUSTED_PROXIES": "10.0.0.0/8, router, 10.0.0.0/33"},
			[]string{`"router" is neither`, `"10.0.0.0/33" is neither`}},
		{"a URL whose CA is not there", map[string]string{"DATABASE_URL": "postgres://u:" + secret +
			"@db/x?sslmode=verify-full&sslrootcert=/nope.pem"}, []string{"DATABASE_URL", "names files that cannot be read"}},
		{"a URL that is none", map[string]string{"DATABASE_URL": "postgres://u:" + secret + "@db:x/"},
			[]string{"DATABASE_URL", "it is malformed"}},
		{"a keyset that is none", map[string]string{"ENCRYPTION_KEYSET": secret}, []string{"ENCRYPTION_KEYSET: "}},
		{"servers that are no JSON", map[string]string{"MYSQL_SERVERS": `[{"name":"` + secret},
			[]string{"MYSQL_SERVERS: is not a JSON array"}},
		{"servers with unknown fields", map[string]string{"MYSQL_SERVERS": `[{"nmae":"` + secret + `"}]`},
			[]string{"MYSQL_SERVERS: is not a JSON array"}},
		{"servers without what they need", map[string]string{"MYSQL_SERVERS": `[{"name":"x"},{"uri":"mysql://a:b@c/"}]`},
			[]string{`shared server "x": it has no uri`, `shared server "": it has no name`}},
		{"a server twice", map[string]string{"MYSQL_SERVERS": `[{"name":"x","uri":"mysql://a:b@c:1/"},
			{"name":"x","uri":"mysql://a:b@d:1/"}]`}, []string{`shared server "x" is described twice`}},
		{"nowhere to make databases", map[string]string{"MYSQL_SERVERS": ""}, []string{"nowhere to create databases"}},
		{"a user name that basic authentication cannot send", map[string]string{"BROKER_USERNAME": "a:b"},
			[]string{"BROKER_USERNAME has a colon"}},
		{"a CA that is no certificate", map[string]string{"MYSQL_SERVERS": `[{"name":"x","uri":"mysql://a:b@c:1/",
			"ca_certificate":"` + secret + `"}]`}, []string{`shared server "x": its ca_certificate holds no PEM`}},
		{"a service whose port is a text", map[string]string{"VCAP_SERVICES": `{"user-provided":[{"name":"mysql-server-1",
			"credentials":{"uri":"mysql://a:` + secret + `@c/","port":"3306"}}]}`},
			[]string{`service "mysql-server-1": its credentials are not`}},
		{"a launcher whose server is none", map[string]string{"LAUNCHER": "process", "LAUNCHER_MYSQLD": "/bin/true"},
			[]string{"LAUNCHER_MYSQLD names no server: "}},
		{"Cloud Foundry's variables are no JSON", map[string]string{"VCAP_SERVICES": secret, "VCAP_APPLICATION": secret},
			[]string{"VCAP_SERVICES is not", "VCAP_APPLICATION is not"}},
		{"sign-in with a client alone", map[string]string{"OIDC_CLIENT_ID": "mysql", "OIDC_CLIENT_SECRET": secret},
			[]string{"EXTERNAL_URL is not set", "OIDC_ISSUER is not set", "nobody could see the dashboard"}},
		{"sign-in without a secret", map[string]string{"DASHBOARD_CLIENT_ID": "mysql"},
			[]string{"of DASHBOARD_CLIENT_ID and DASHBOARD_CLIENT_SECRET, one is set"}},
		{"sign-in without a client", map[string]string{"OIDC_CLIENT_SECRET": secret},
			[]string{"of OIDC_CLIENT_ID and OIDC_CLIENT_SECRET, one is set"}},
		{"sign-in with two clients", map[string]string{"DASHBOARD_CLIENT_ID": "a", "DASHBOARD_CLIENT_SECRET": secret,
			"OIDC_CLIENT_ID": "b", "OIDC_CLIENT_SECRET": secret}, []string{"both DASHBOARD_CLIENT_ID and OIDC_CLIENT_ID"}},
		{"sign-in at addresses that others could read along", map[string]string{"OIDC_CLIENT_ID": "a", "OIDC_CLIENT_SECRET": secret,
			"OIDC_ISSUER": "http://id.example.com", "CLOUD_CONTROLLER_URL": "https://u:" + secret + "@api.example.com"},
			[]string{"OIDC_ISSUER is not a URL", "CLOUD_CONTROLLER_URL is not a URL"}},
	} {
		expectProblems(t, tt.name, tt.change, tt.want)
	}
}

func TestCloudFoundry(t *testing.T) {
	t.Parallel()
	services := map[string]any{
		"postgres": []any{map[string]any{"name": "state", "tags": []string{"PostgreSQL"},
			"credentials": map[string]any{"uri": "postgres://tagged/"}}},
		"user-provided": []any{
			map[string]any{"name": "mysql-server-1", "credentials": map[string]any{"uri": "mysql://a:b@one:3306/",
				"ca_certificate": certificate, "host": "public.one", "port": 3307}},
			map[string]any{"name": "other", "tags": []string{"mysql-server"}, "credentials": map[string]any{
				"uri": "mysql://a:b@two:3306/", "name": "two"}},
			map[string]any{"name": "unrelated", "credentials": map[string]any{"uri": "https://example.com"}},
		},
	}
	env := complete(t)
	delete(env, "DATABASE_URL")
	delete(env, "MYSQL_SERVERS")
	env["PORT"] = "9000"
	env["VCAP_APPLICATION"] = `{"application_name":"mysql-broker","instance_index":1}`
	env["VCAP_SERVICES"] = testdrive.Encode(t, services)
	cfg, err := read(t, env)
	require.NoError(t, err)
	assert.True(t, cfg.PostgresURL == "postgres://tagged/" && cfg.Port == 9000 && cfg.Application.Index == 1, "%+v", cfg)
	require.Len(t, cfg.Shared, 2, "%d shared servers", len(cfg.Shared))
	one, two := cfg.Shared[0], cfg.Shared[1]
	assert.True(t, one.Admin.Name == "mysql-server-1" && one.Host == "public.one" && one.Port == 3307 &&
		string(one.Admin.CA) == certificate, "first server %+v", one)
	assert.True(t, two.Admin.Name == "two" && two.Host == "two", "second server %+v", two)

	t.Run("a service by its name comes before a tagged one", func(t *testing.T) {
		services["a"] = []any{map[string]any{"name": "mysql-broker-db", "credentials": map[string]any{
			"url": "postgres://named/"}}}
		env["VCAP_SERVICES"] = testdrive.Encode(t, services)
		cfg, err := read(t, env)
		assert.True(t, err == nil && cfg.PostgresURL == "postgres://named/", "%q, %v", cfg.PostgresURL, err)
	})
}

// With a service's certificate, connections are verified, unless its URI has another sslmode.
func TestCertificateOfThePostgreSQLService(t *testing.T) {
	t.Parallel()
	for uri, mode := range map[string]string{"postgres://u:p@h/d": "verify-full",
		"postgres://u:p@h/d?sslmode=verify-ca&pool_max_conns=3": "verify-ca"} {
		env := complete(t)
		delete(env, "DATABASE_URL")
		env["VCAP_SERVICES"] = testdrive.Encode(t, map[string]any{"postgres": []any{map[string]any{"name": "mysql-broker-db",
			"credentials": map[string]any{"uri": uri, "ca_certificate": certificate}}}})
		cfg, err := read(t, env)
		require.NoError(t, err)
		u, err := url.Parse(cfg.PostgresURL)
		require.NoError(t, err)
		assert.True(t, u.Query().Get("sslmode") == mode && u.Query().Get("sslrootcert") == certificate,
			"%s became %s", uri, cfg.PostgresURL)
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for variable, test := range map[string]struct {
		good map[string]time.Duration
		bad  []string
		of   func(config.Config) []time.Duration
	}{
		"QUOTA_INTERVAL": {map[string]time.Duration{"": time.Minute, "0": 0, "1s": time.Second, "1h": time.Hour},
			[]string{"-1s", "10ms", "2h", "often"}, func(c config.Config) []time.Duration { return []time.Duration{c.Quota} }},
		"ANSWER_TIMEOUT": {map[string]time.Duration{"": 2 * time.Second, "30s": 30 * time.Second},
			[]string{"0", "31s", "soon"}, func(c config.Config) []time.Duration {
				return []time.Duration{c.AnswerTime, c.Shared[0].AnswerTime}
			}},
	} {
		for text, want := range test.good {
			cfg, err := readWith(t, map[string]string{variable: text})
			require.NoError(t, err, "%s=%s", variable, text)
			for _, got := range test.of(cfg) {
				assert.Equal(t, want, got, "%s=%s", variable, text)
			}
		}
		for _, text := range test.bad {
			expectProblems(t, text, map[string]string{variable: text}, []string{variable})
		}
	}
}
