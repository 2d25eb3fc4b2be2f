package servers_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func TestPostgresDatabasesAreSeparate(t *testing.T) {
	t.Parallel()
	for range 2 {
		conn, err := pgx.Connect(t.Context(), servers.Postgres(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), "CREATE TABLE only_once (n int)"); err != nil {
			t.Error(err)
		}
	}
}

func TestEachMySQLCanBeVerified(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		db, err := s.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var connections int
		if err := db.QueryRowContext(t.Context(), "SELECT @@max_connections").Scan(&connections); err != nil {
			t.Fatal(err)
		}
		if connections < 500 {
			t.Errorf("%d connections, want at least 500 for tests that share the server", connections)
		}
	})
}
