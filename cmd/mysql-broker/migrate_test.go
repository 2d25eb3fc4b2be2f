package main

import (
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DATABASE_URL": servers.EmptyPostgres(t)}
	first := testdrive.Run(t, env, "migrate").Expect(t, 0)
	if !strings.HasPrefix(first.Stdout, "The schema is at version ") {
		t.Errorf("migrate printed %q", first.Stdout)
	}
	conn, err := pgx.Connect(t.Context(), env["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "INSERT INTO server (name) VALUES ('kept')"); err != nil {
		t.Fatal(err)
	}
	var together sync.WaitGroup
	for range 2 {
		together.Go(func() {
			if again := testdrive.Run(t, env, "migrate"); again.Status != 0 || again.Stdout != first.Stdout {
				t.Errorf("the second time, migrate ended with %d and printed %q%q", again.Status, again.Stdout, again.Stderr)
			}
		})
	}
	together.Wait()
	var kept int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM server").Scan(&kept); err != nil || kept != 1 {
		t.Errorf("rows after the second time: %d, %v", kept, err)
	}
}
