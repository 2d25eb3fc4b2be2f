package connect

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// verbatim is a program that takes uri, DATABASE_URL or jdbcUrl as it stands.
func verbatim(t *testing.T, d driver) program {
	name := d.example
	switch name {
	case "django":
		d.run = `/usr/bin/python3 "$TESTDATA/with_django.py"`
	case "rails":
		d.file, d.run = "main.rb", "/usr/bin/ruby main.rb"
	case "java-mariadb", "java-mysql":
		name = "java"
	}
	text, err := os.ReadFile(filepath.Join("testdata", "uri", name+".txt"))
	require.NoError(t, err)
	return prepared(t, d, string(text))
}

// connectVerbatim gives a program the credentials' URLs. DATABASE_URL is what Cloud Controller makes of uri: of the
// first service that has one, with the scheme that Rails calls MySQL by.
// https://github.com/cloudfoundry/cloud_controller_ng/blob/main/lib/cloud_controller/database_uri_generator.rb
func (p program) connectVerbatim(t *testing.T, b binding) {
	uri := b.text("uri")
	output, err := patiently(t, func() (string, error) {
		return p.shell(t, p.run, "URI="+uri, "DATABASE_URL="+strings.Replace(uri, "mysql://", "mysql2://", 1),
			"JDBC_URL="+b.text("jdbcUrl"))
	})
	assert.True(t, err == nil && strings.Contains(output, "connected to "+b.text("database")),
		"%v; it printed %q", err, output)
}

// parses lists the examples of drivers that take a URI with its options by themselves, and so TLS too; the others are
// given its parts by a program.
var parses = []string{"node", "rails", "java-mariadb", "java-mysql"}

// TestURLsAsTheyStand connects every driver with uri, DATABASE_URL or jdbcUrl, without a word on TLS beside them, by
// accounts that nobody has logged in with before.
func TestURLsAsTheyStand(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		broker := testdrive.Start(t, testdrive.Environment(t, server))
		for _, d := range drivers() {
			if d.example == "mysql" || d.example == "mariadb" {
				continue // they take no URL
			}
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				p := verbatim(t, d)
				i := newTenant(t, broker, "url-"+strings.ReplaceAll(d.name, " ", "-"))
				p.connectVerbatim(t, bind(t, i, "optional", nil))
				if slices.Contains(parses, d.example) {
					p.connectVerbatim(t, bind(t, i, "required", map[string]any{"tls": "required"}))
				}
			})
		}
	})
}

// TestJDBCURLVerifiesByTheTrustStore has Java trust the server's CA, as buildpacks do with the certificates that the
// platform has applications trust.
func TestJDBCURLVerifiesByTheTrustStore(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		env["PLATFORM_TRUSTS_CA"] = "true"
		broker := testdrive.Start(t, env)
		for _, d := range drivers() {
			if d.jar == "" {
				continue
			}
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				p := verbatim(t, d)
				b := bind(t, newTenant(t, broker, "trust-"+strings.ReplaceAll(d.name, " ", "-")), "b", nil)
				p.env = append(p.env, "JDK_JAVA_OPTIONS=-Djavax.net.ssl.trustStore="+trustStore(t, b)+
					" -Djavax.net.ssl.trustStorePassword=changeit")
				p.connectVerbatim(t, b)
				for _, a := range []attack{ownCertificate, anotherServer, noTLS} {
					p.expectRefusal(t, b, a)
				}
			})
		}
	})
}

// trustStore holds the CA of a binding alone.
func trustStore(t *testing.T, b binding) (path string) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, []byte(b.text("ca_certificate")), 0o600))
	path = filepath.Join(filepath.Dir(ca), "trust.p12")
	out, err := exec.CommandContext(t.Context(), "keytool", "-importcert", "-noprompt", "-alias", "mysql", "-file", ca,
		"-keystore", path, "-storepass", "changeit").CombinedOutput()
	require.NoError(t, err, "keytool: %v\n%s", err, out)
	return path
}
