package e2e

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"testing"

	"mysql-broker/provisioner/mysqladmin"
)

// stall makes every statement that changes something on a server wait until release, as one that is being backed up
// does. The broker's statements give up after 2 s each.
func stall(t *testing.T, admin *sql.DB) (release func()) {
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

// awaitStatement waits until a session executes a statement that begins like this.
func awaitStatement(t *testing.T, admin *sql.DB, beginning string) {
	t.Helper()
	awaitTrue(t, admin, `SELECT EXISTS (SELECT 1 FROM information_schema.processlist
		WHERE id <> CONNECTION_ID() AND info LIKE CONCAT(?, '%'))`, beginning)
}

// expectTenants fails the test unless the server has just these many databases and accounts of tenants.
func expectTenants(t *testing.T, admin *sql.DB, databases, accounts int) {
	t.Helper()
	found := names(t, admin, `SELECT schema_name FROM information_schema.schemata
		WHERE schema_name LIKE 'db\_%' AND schema_name <> 'db_broker_marks'`)
	if len(found) != databases {
		t.Errorf("databases on the server: %q, want %d", found, databases)
	}
	found = names(t, admin, `SELECT user FROM mysql.user WHERE user LIKE 'u\_%'`)
	if len(found) != accounts {
		t.Errorf("accounts on the server: %q, want %d", found, accounts)
	}
}

// names runs a query that yields one column, and sorts it.
func names(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	all := readAll(t, db, query)
	slices.Sort(all)
	return all
}
