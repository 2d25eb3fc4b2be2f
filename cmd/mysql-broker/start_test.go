package main

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// secret is part of every value below that must not be quoted.
const secret = "hunter2-do-not-tell"

// Every mistake is reported at once, those of the catalog too. Which there are, packages config and catalog test.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	broken := brokenCatalog(t)
	env := wrongly(t, map[string]string{"CATALOG": broken, "PORT": "http", "LOG_LEVEL": "chatty", "MYSQL_SERVERS": secret})
	out := testdrive.Run(t, env, "serve").Expect(t, 78)
	assert.NotContains(t, out.Stdout+out.Stderr, secret)
	for _, want := range []string{"PORT", "LOG_LEVEL", "MYSQL_SERVERS", broken + ":2:", broken + ":3:"} {
		assert.NotEmpty(t, containing(out.Stderr, want), "no line about %q in:\n%s", want, out.Stderr)
	}
}

// brokenCatalog writes a catalog with mistakes in its lines 2 and 3.
func brokenCatalog(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "catalog.yml")
	require.NoError(t, os.WriteFile(file, []byte("services:\n  - name: mysql\n    colour: red\n"), 0o600))
	return file
}

// wrongly is a valid configuration with some values changed. Nothing connects to what it names.
func wrongly(t *testing.T, changes map[string]string) map[string]string {
	keyset, err := store.NewKeyset()
	require.NoError(t, err)
	env := map[string]string{
		"PORT": "0", "BROKER_USERNAME": testdrive.Username, "BROKER_PASSWORD": secret, "ENCRYPTION_KEYSET": keyset,
		"DATABASE_URL":  "postgres://me:" + secret + "@127.0.0.1:1/db",
		"MYSQL_SERVERS": `[{"name":"ok","uri":"mysql://root:` + secret + `@127.0.0.1:1/"}]`,
		"CATALOG":       testdrive.Root() + "/catalog.yml",
	}
	maps.Copy(env, changes)
	return env
}

func containing(text, part string) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			lines = append(lines, line)
		}
	}
	return lines
}

// An address that another program has is not a configuration error. The log says which of its operator's applications the broker is.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	for variable, set := range map[string]struct{ value, says string }{
		"PORT":          {port, "cannot listen on %s; set ADDRESS or PORT to another one"},
		"PPROF_ADDRESS": {taken.Addr().String(), "PPROF_ADDRESS: cannot listen on %s"}} {
		env := testdrive.AnyEnvironment(t)
		env["ADDRESS"] = "127.0.0.1"
		env["VCAP_APPLICATION"] = `{"application_name":"mysql-broker","instance_index":1}`
		env[variable] = set.value
		out := testdrive.Run(t, env, "serve").Expect(t, 1)
		starting := strings.Index(out.Stderr, `"msg":"starting","app":"mysql-broker","app_index":1`)
		failed := strings.Index(out.Stderr, fmt.Sprintf(set.says, taken.Addr()))
		assert.True(t, starting >= 0 && failed >= starting, "%s: the log is\n%s", variable, out.Stderr)
	}
}

func TestDoctorBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	env := testdrive.Environment(t, servers.Any(t))
	env["DATABASE_URL"] = servers.EmptyPostgres(t)
	out := testdrive.Run(t, env, "doctor", "--before-start").Expect(t, 0)
	for line := range strings.Lines(out.Stdout) {
		assert.True(t, strings.HasSuffix(line, ": ok\n"), "doctor says %q", line)
	}
	for _, want := range []string{"PostgreSQL: ", "shared server ", "launchers: ", "port 0: ", "memory limit: "} {
		assert.Len(t, containing(out.Stdout, want), 1, "nothing about %q in:\n%s", want, out.Stdout)
	}
	testdrive.Run(t, env, "migrate").Expect(t, 0) // nothing is there that would hinder it

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	env["ADDRESS"], env["PORT"] = "127.0.0.1", port
	env["MYSQL_SERVERS"] = `[{"name":"absent","uri":"mysql://broker:` + secret + `@127.0.0.1:1/"}]`
	env["DATABASE_URL"] = "postgres://broker:" + secret + "@127.0.0.1:1/broker"
	env["CREDHUB_URL"], env["CREDHUB_CLIENT"], env["CREDHUB_CLIENT_SECRET"] = "https://127.0.0.1:1", "broker", secret
	env["BACKUP_STORE"], env["BACKUP_ACCESS_KEY"], env["BACKUP_SECRET_KEY"] = "https://127.0.0.1:1/backups", "broker", secret
	out = testdrive.Run(t, env, "doctor", "--before-start").Expect(t, 1)
	for _, want := range []string{"PostgreSQL: reach PostgreSQL: ", "shared server absent: ", "object store: ", "CredHub: ",
		"port " + port + ": cannot listen on 127.0.0.1:" + port + "; set ADDRESS or PORT to another one"} {
		lines := containing(out.Stdout, want)
		assert.True(t, len(lines) == 1 && !strings.HasSuffix(lines[0], ": ok"),
			"nothing wrong with %q in:\n%s", want, out.Stdout)
	}
	assert.True(t, !strings.Contains(out.Stdout+out.Stderr, secret) &&
		strings.Contains(out.Stderr, "checks that failed: 5"), "doctor says %s%s", out.Stdout, out.Stderr)
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DATABASE_URL": servers.EmptyPostgres(t)}
	first := testdrive.Run(t, env, "migrate").Expect(t, 0)
	assert.True(t, strings.HasPrefix(first.Stdout, "The schema is at version "), "migrate printed %q", first.Stdout)
	records := testdrive.OpenTasks(t, env)
	records.Exec(t, "INSERT INTO server (name) VALUES ('kept')")
	var together sync.WaitGroup
	for range 2 {
		together.Go(func() {
			again := testdrive.Run(t, env, "migrate")
			assert.True(t, again.Status == 0 && again.Stdout == first.Stdout,
				"the second time, migrate ended with %d and printed %q%q", again.Status, again.Stdout, again.Stderr)
		})
	}
	together.Wait()
	var kept int
	records.Scan(t, &kept, "SELECT count(*) FROM server")
	assert.Equal(t, 1, kept, "rows after the second time")
}
