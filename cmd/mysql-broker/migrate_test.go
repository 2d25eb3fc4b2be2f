package main

import (
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DATABASE_URL": servers.EmptyPostgres(t)}
	first := testdrive.Run(t, env, "migrate").Expect(t, 0)
	assert.True(t, strings.HasPrefix(first.Stdout, "The schema is at version "), "migrate printed %q", first.Stdout)
	conn, err := pgx.Connect(t.Context(), env["DATABASE_URL"])
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "INSERT INTO server (name) VALUES ('kept')")
	require.NoError(t, err)
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
	err = conn.QueryRow(t.Context(), "SELECT count(*) FROM server").Scan(&kept)
	assert.True(t, err == nil && kept == 1, "rows after the second time: %d, %v", kept, err)
}
