package main

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

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
	if strings.Contains(out.Stdout+out.Stderr, secret) || !strings.Contains(out.Stderr, "checks that failed: 5") {
		t.Errorf("doctor says %s%s", out.Stdout, out.Stderr)
	}
}
