// Package connect runs what docs/connect.md tells developers to write, and what drivers make of credentials as they
// stand, with the drivers themselves. A driver that is not installed fails the tests.
package connect

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Where Debian, and deploy/dev/install-packages.sh, put what Java needs.
const (
	gsonJar     = "/usr/share/java/gson.jar"
	mariaDB2Jar = "/usr/share/java/mariadb-java-client-2.*.jar"
	mariaDB3Jar = "/usr/local/share/java/mariadb-java-client-3.*.jar"
)

// connectorJVar names the jar of MySQL's Connector/J, which no package registry of the tests has. With it, Connector/J
// is one more driver.
const connectorJVar = "CONNECTOR_J"

// driver is how to run an example of docs/connect.md.
type driver struct {
	name    string // what tests are called
	example string // which example it is
	file    string // what the example is to be called
	jar     string // pattern; of Java's drivers
	only    string // the one flavour that it works with, "" for both
	another string // the format of another server's address, if it is not the address itself
	// logsIn says that it may log in to MariaDB where it does not know the CA, and then demands proof, by what the
	// password is hashed to, that it was the server: https://mariadb.org/mission-impossible-zero-configuration-ssl
	logsIn  bool
	only4   bool   // it connects to an IPv6 address in brackets alone, and then looks for one with them in the certificate
	prepare string // a shell command before the first run, in the example's directory
	run     string // a shell command in the example's directory
}

// drivers are all that are tested. Django and Rails get the program around their settings.
func drivers() []driver {
	const runJava = `java -cp ".:$JAR:` + gsonJar + `" Connect`
	const compile = `javac -cp "$JAR:` + gsonJar + `" Connect.java`
	all := []driver{
		{name: "go", example: "go", file: "main.go", prepare: `dir=$PWD; cd "$ROOT" && go build -o "$dir/main" "$dir/main.go"`,
			run: "./main"},
		{name: "node", example: "node", file: "main.js", another: "127.2", run: `NODE_PATH="$NODE_MODULES" node main.js`},
		{name: "pymysql", example: "pymysql", file: "main.py", run: "/usr/bin/python3 main.py"},
		{name: "mysqlclient", example: "mysqlclient", file: "main.py", run: "/usr/bin/python3 main.py"},
		{name: "django", example: "django", file: "settings.py", run: `/usr/bin/python3 "$TESTDATA/with_django.py"`},
		{name: "ruby", example: "ruby", file: "main.rb", run: "/usr/bin/ruby main.rb"},
		{name: "rails", example: "rails", file: "database.yml", run: `/usr/bin/ruby "$TESTDATA/with_rails.rb"`},
		{name: "pdo", example: "pdo", file: "main.php", only4: true, run: "/usr/bin/php main.php"},
		{name: "mysqli", example: "mysqli", file: "main.php", only4: true, run: "/usr/bin/php main.php"},
		{name: "java MariaDB 2.7", example: "java-mariadb", file: "Connect.java", jar: mariaDB2Jar, prepare: compile, run: runJava},
		{name: "java MariaDB 3", example: "java-mariadb", file: "Connect.java", jar: mariaDB3Jar, prepare: compile, run: runJava,
			logsIn: true},
		{name: "mariadb", example: "mariadb", file: "main.sh", run: "bash -euo pipefail main.sh"},
	}
	if jar := os.Getenv(connectorJVar); jar != "" {
		all = append(all, driver{name: "java MySQL", example: "java-mysql", file: "Connect.java", jar: jar, prepare: compile,
			run: runJava})
	}
	if mysqlClient() != "" {
		all = append(all, driver{name: "mysql", example: "mysql", file: "main.sh", only: "mysql",
			run: `PATH="$(dirname "$MYSQL"):$PATH" bash -euo pipefail main.sh`})
	}
	return all
}

// mysqlClient is MySQL's own client, which comes with its server, "" if that is not installed: Debian's program of that
// name is MariaDB's.
func mysqlClient() string {
	for _, server := range filepath.SplitList(os.Getenv("MYSQLD")) {
		client := filepath.Join(filepath.Dir(server), "mysql")
		if _, err := os.Stat(client); err == nil {
			return client
		}
	}
	return ""
}

// program is a driver that is ready to be run.
type program struct {
	driver
	dir string
	env []string
}

// prepared puts an example, or other text, into a directory of its own and does what has to be done once.
func prepared(t *testing.T, d driver, text string) program {
	p := program{driver: d, dir: t.TempDir(), env: environment(t)}
	if d.jar != "" {
		p.env = append(p.env, "JAR="+jarOf(t, d))
	}
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, d.file), []byte(text), 0o600))
	if d.prepare != "" {
		out, err := p.shell(t, d.prepare)
		require.NoError(t, err, "%s: %v\n%s", d.prepare, err, out)
	}
	return p
}

func jarOf(t *testing.T, d driver) string {
	found, err := filepath.Glob(d.jar)
	require.True(t, err == nil && len(found) != 0,
		"%s is not installed: there is no %s; deploy/dev/install-packages.sh test installs it", d.name, d.jar)
	return found[len(found)-1]
}

func environment(t *testing.T) []string {
	here, err := os.Getwd()
	require.NoError(t, err)
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "VCAP_") })
	return append(env, "ROOT="+testdrive.Root(), "TESTDATA="+filepath.Join(here, "testdata"), "MYSQL="+mysqlClient(),
		"NODE_MODULES="+nodeModules(t), "GOFLAGS=-buildvcs=false")
}

// shell runs a command in the program's directory.
func (p program) shell(t *testing.T, command string, env ...string) (output string, err error) {
	cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
	cmd.Dir, cmd.Env = p.dir, append(append([]string{"TMPDIR=" + p.dir}, p.env...), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// connect runs the program with credentials.
func (p program) connect(t *testing.T, b binding) (output string, err error) {
	return p.shell(t, p.run, "VCAP_SERVICES="+b.vcapServices(t), "JDBC_URL="+b.text("jdbcUrl"))
}

// droppedLogin matches what programs print of a connection that the server has closed while they logged in.
var droppedLogin = regexp.MustCompile(`Broken pipe|Connection reset|Remote host terminated the handshake|` +
	`SSL peer shut down|unexpected end of stream|Lost connection to (MySQL )?server`)

// patiently runs a login again if the server has closed its connection. On MySQL an unbind, here another test's, ends
// logins that take longer than three seconds (docs/security.md), as those of a JVM may where the processors are busy. What a
// server or driver refuses is not tried again.
func patiently(t *testing.T, login func() (output string, err error)) (output string, err error) {
	t.Helper()
	for range 10 {
		if output, err = login(); err == nil || !droppedLogin.MatchString(output) {
			break
		}
		t.Logf("the server closed the connection: %q", output)
	}
	return output, err
}

// cipher matches the name of one.
var cipher = regexp.MustCompile(`(?m)^(TLS_|ECDHE-)[A-Z0-9_-]+$`)

// examples are the ones in docs/connect.md, by what the comment before each says.
func examples(t *testing.T) map[string]string {
	page := testdrive.Shipped(t, "docs/connect.md")
	all := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)<!-- run: ([a-z-]+) -->\n```[a-z]+\n(.*?)\n```\n").FindAllStringSubmatch(page, -1) {
		all[m[1]] = m[2] + "\n"
	}
	blocks := strings.Count(page, "\n```") / 2
	require.Equal(t, len(all), blocks,
		"docs/connect.md has %d blocks of code, of which %d have a comment that says how to run them", blocks, len(all))
	return all
}

// TestExamples runs every example of docs/connect.md on every flavour: it connects over TLS, to the right server alone.
func TestExamples(t *testing.T) {
	t.Parallel()
	all := examples(t)
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		broker := testdrive.Start(t, testdrive.Environment(t, server))
		for _, d := range drivers() {
			if d.only != "" && d.only != server.Flavour {
				continue
			}
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				text, ok := all[d.example]
				require.True(t, ok, "docs/connect.md has no such example")
				p := prepared(t, d, text)
				b := bind(t, newTenant(t, broker, strings.ReplaceAll(d.name, " ", "-")), "required", map[string]any{"tls": "required"})
				for _, a := range []attack{ownCertificate, anotherServer, noTLS} {
					p.expectRefusal(t, b, a)
				}
				output, err := patiently(t, func() (string, error) { return p.connect(t, b) })
				assert.True(t, err == nil && cipher.MatchString(output), "%v; it printed %q", err, output)
				if d.only4 {
					return
				}
				six := intercept(t, b.address(), knownCA)
				b = b.with(b.text("ca_certificate"), six.ca).at("::1", six.Addr.Port)
				output, err = patiently(t, func() (string, error) { return p.connect(t, b) })
				assert.True(t, err == nil && cipher.MatchString(output), "to an IPv6 address: %v; it printed %q", err, output)
			})
		}
	})
}

// expectRefusal attacks the program, which must fail before it has sent the attacker anything secret.
func (p program) expectRefusal(t *testing.T, b binding, a attack) {
	i := intercept(t, b.address(), a)
	host := i.Addr.IP.String()
	if a == anotherServer && p.another != "" {
		host = p.another
	}
	output, err := p.connect(t, b.at(host, i.Addr.Port))
	heard, contacted := i.Heard()
	require.True(t, contacted, "nobody came to somebody who %s; the program printed %q", a, output)
	assert.Error(t, err, "it connects to somebody who %s, and prints %q", a, output)
	leaked := bytes.Contains(heard, []byte(b.text("password")))
	assert.False(t, leaked || len(heard) > 0 && !p.logsIn,
		"it tells somebody who %s %d bytes; the password is among them: %v", a, len(heard), leaked)
}

// The interceptor itself: a client that verifies nothing sends it the password, or at least logs in.
func TestUnverifiedIsIntercepted(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		broker := testdrive.Start(t, testdrive.Environment(t, server))
		d := driver{name: "careless", file: "main.js", run: `NODE_PATH="$NODE_MODULES" node main.js`}
		p := prepared(t, d, strings.Replace(examples(t)["node"], "{ ca: c.ca_certificate, verifyIdentity: true }",
			"{ rejectUnauthorized: false }", 1))
		b := bind(t, newTenant(t, broker, "careless"), "b", nil)
		i := intercept(t, b.address(), ownCertificate)
		output, err := p.connect(t, b.at("127.0.0.1", i.Addr.Port))
		require.True(t, err == nil && cipher.MatchString(output), "%v; it printed %q", err, output)
		heard, _ := i.Heard()
		assert.True(t, bytes.Contains(heard, []byte(b.text("username"))), "the interceptor has not heard the login")
		leaked := bytes.Contains(heard, []byte(b.text("password")))
		if want := server.Flavour == "mysql"; leaked != want { // MariaDB's accounts answer a challenge
			t.Errorf("the interceptor has heard the password: %v", leaked)
		}
	})
}

// nodeModules is where npm has installed what node/package-lock.json names, once for all tests of a run.
func nodeModules(t *testing.T) string {
	return filepath.Join(servers.Made(t, "node", func(path string) error {
		if err := os.CopyFS(path, os.DirFS("node")); err != nil {
			return err
		}
		npm := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
		npm.Dir = path
		if out, err := npm.CombinedOutput(); err != nil {
			return fmt.Errorf("npm ci: %w\n%s", err, out)
		}
		return nil
	}), "node_modules")
}

func TestMain(m *testing.M) { servers.Main(m) }
