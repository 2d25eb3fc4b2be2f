package testdrive

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"mysql-broker/provisioner/mysqladmin"
)

// Stall makes every statement that changes something on a server wait until release, as one that is being backed up
// does. The broker's statements give up after 2 s each.
func Stall(t *testing.T, admin *sql.DB) (release func()) {
	t.Helper()
	conn, err := admin.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK"); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		_, err := conn.ExecContext(context.Background(), "UNLOCK TABLES")
		if err != nil && !mysqladmin.Unreachable(err) { // else the server was killed, and its locks ended with it
			t.Errorf("release the server: %v", err)
		}
		conn.Close()
	})
	t.Cleanup(release)
	return release
}

// AwaitStatement waits until a session executes a statement that begins like this.
func AwaitStatement(t *testing.T, admin *sql.DB, beginning string) {
	t.Helper()
	AwaitTrue(t, admin, `SELECT EXISTS (SELECT 1 FROM information_schema.processlist
		WHERE id <> CONNECTION_ID() AND info LIKE CONCAT(?, '%'))`, beginning)
}
