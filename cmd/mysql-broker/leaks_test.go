package main

import (
	"maps"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestCommandsLeakNothing runs commands where PostgreSQL cannot be reached. What else is wrong with a configuration is
// TestBadConfiguration's.
func TestCommandsLeakNothing(t *testing.T) {
	t.Parallel()
	good := wrongly(t, map[string]string{"DATABASE_URL": servers.Postgres(t)})
	testdrive.Run(t, good, "migrate").Expect(t, 0)
	const hidden = "do-not-tell-anybody"
	seen := &testdrive.Secrets{}
	seen.Add(hidden, secret, good["ENCRYPTION_KEYSET"])
	wrongPassword, err := url.Parse(good["DATABASE_URL"])
	require.NoError(t, err, "DATABASE_URL is no URL")
	password, _ := wrongPassword.User.Password()
	seen.Add(password)
	wrongPassword.User = url.UserPassword(wrongPassword.User.Username(), hidden)
	mistakes := map[string]map[string]string{
		"PostgreSQL does not listen":         {"DATABASE_URL": "postgres://me:" + hidden + "@127.0.0.1:1/db"},
		"PostgreSQL refuses":                 {"DATABASE_URL": wrongPassword.String()},
		"DATABASE_URL has an unknown option": {"DATABASE_URL": "postgres://me:" + hidden + "@h/db?sslmode=" + hidden},
	}
	for mistake, change := range mistakes {
		env := maps.Clone(good)
		maps.Copy(env, change)
		for _, command := range []string{"serve", "migrate", "rotate-keys", "rotate-admin-passwords", "doctor"} {
			out := testdrive.Run(t, env, command)
			assert.False(t, out.Status == 0 || out.Stderr == "",
				"%s, %s: status %d, and it said %q", command, mistake, out.Status, out.Stderr)
			seen.Check(t, command+", "+mistake, out.Stdout+out.Stderr)
		}
	}
}
