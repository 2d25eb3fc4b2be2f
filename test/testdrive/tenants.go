package testdrive

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func DatabaseExists(t *testing.T, p Platform, name string) bool {
	t.Helper()
	return Read[bool](t, p.Admin(t),
		"SELECT EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = ?)", name)
}

// ExpectNothingLeft fails the test if the server knows anything of a database or of its accounts.
func ExpectNothingLeft(t *testing.T, p Platform, database string, accounts ...string) {
	t.Helper()
	if DatabaseExists(t, p, database) {
		t.Errorf("the database %s is still there", database)
	}
	for _, account := range accounts {
		if AccountExists(t, p, account) {
			t.Errorf("the account %s is still there", account)
		}
	}
	pattern := strings.ReplaceAll(database, "_", `\_`)
	for _, table := range []string{"db", "tables_priv", "columns_priv", "procs_priv"} {
		left := Names(t, p.Admin(t), fmt.Sprintf("SELECT user FROM mysql.%s WHERE db IN ('%s', '%s')", table, database,
			strings.ReplaceAll(pattern, `\`, `\\`)))
		if len(left) > 0 {
			t.Errorf("mysql.%s has privileges of %q", table, left)
		}
	}
	const tablespaces = "SELECT COUNT(*) FROM information_schema.innodb_%stablespaces WHERE name LIKE CONCAT(?, '/%%')"
	sys := map[string]string{"mysql": "", "mariadb": "sys_"}[p.Server.Flavour]
	if n := Read[int](t, p.Admin(t), fmt.Sprintf(tablespaces, sys), database); n > 0 {
		t.Errorf("%d files of the database are left", n)
	}
}

// ExpectTenants fails the test unless the server has just these many databases and accounts of tenants.
func ExpectTenants(t *testing.T, admin *sql.DB, databases, accounts int) {
	t.Helper()
	found := Names(t, admin, `SELECT schema_name FROM information_schema.schemata
		WHERE schema_name LIKE 'db\_%' AND schema_name <> 'db_broker_marks'`)
	if len(found) != databases {
		t.Errorf("databases on the server: %q, want %d", found, databases)
	}
	found = Names(t, admin, `SELECT user FROM mysql.user WHERE user LIKE 'u\_%'`)
	if len(found) != accounts {
		t.Errorf("accounts on the server: %q, want %d", found, accounts)
	}
}

// Names runs a query that yields one column, and sorts it.
func Names(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	all := ReadAll(t, db, query)
	slices.Sort(all)
	return all
}

func AccountExists(t *testing.T, p Platform, name string) bool {
	t.Helper()
	return Read[bool](t, p.Admin(t), "SELECT EXISTS (SELECT 1 FROM mysql.user WHERE user = ?)", name)
}
