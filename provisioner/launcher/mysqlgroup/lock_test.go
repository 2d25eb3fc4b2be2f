package mysqlgroup_test

import (
	"context"
	"database/sql"
	"testing"

	"mysql-broker/provisioner/launcher/mysqlgroup"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// A broker that was paused while it held the lock of a member has lost its session when another one has the lock.
func TestLock(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
		defer cancel()
		db, err := server.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		session := func() *sql.Conn {
			t.Helper()
			conn, err := db.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if err := mysqlgroup.Lock(ctx, conn); err != nil {
				t.Fatal(err)
			}
			return conn
		}
		paused := session()
		if _, err := paused.ExecContext(ctx, "SET @changes = 1"); err != nil {
			t.Fatal(err)
		}
		heir := session()
		if _, err := paused.ExecContext(ctx, "SET @changes = 2"); err == nil {
			t.Error("a session that has lost the lock still changes something")
		}
		if _, err := heir.ExecContext(ctx, "SET @changes = 3"); err != nil {
			t.Error(err)
		}
	})
}
