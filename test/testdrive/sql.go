package testdrive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/audit"
)

// Execer is a session, or a pool of them.
type Execer interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
}

// Exec runs statements in a session, or in those of a pool.
func Exec(t testing.TB, in Execer, statements ...string) {
	for _, statement := range statements {
		_, err := in.ExecContext(t.Context(), statement)
		require.NoError(t, err, statement)
	}
}

// Read runs a query that yields one value.
func Read[T any](t *testing.T, db *sql.DB, query string, args ...any) (value T) {
	require.NoError(t, db.QueryRowContext(t.Context(), query, args...).Scan(&value), query)
	return value
}

// AwaitTrue polls a query that yields one boolean until it does hold.
func AwaitTrue(t *testing.T, db *sql.DB, query string, args ...any) {
	Eventually(t, query, func() bool { return Read[bool](t, db, query, args...) })
}

// ReadAll is the first column of a query.
func ReadAll(t *testing.T, db *sql.DB, query string) (all []string) {
	all, err := audit.Column(t.Context(), db, query)
	require.NoError(t, err, query)
	return all
}

// ErrorNumber is the number of a server's error, 0 for another error.
func ErrorNumber(err error) uint16 {
	if refusal := (*mysql.MySQLError)(nil); errors.As(err, &refusal) {
		return refusal.Number
	}
	return 0
}

// RefusalOf is the number of the server's error, 0 for success and where the connection was lost.
func RefusalOf(t *testing.T, db *sql.DB, statement string) uint16 {
	return ErrorNumber(ErrorOf(t, db, statement))
}

func ErrorOf(t *testing.T, db *sql.DB, statement string) error {
	_, err := db.ExecContext(t.Context(), statement)
	return err
}

func DatabaseExists(t *testing.T, p Platform, name string) bool {
	return Read[bool](t, p.Admin(t),
		"SELECT EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = ?)", name)
}

// ExpectNothingLeft fails the test if the server knows anything of a database or of its accounts.
func ExpectNothingLeft(t *testing.T, p Platform, database string, accounts ...string) {
	assert.False(t, DatabaseExists(t, p, database), "the database %s is still there", database)
	for _, account := range accounts {
		assert.False(t, AccountExists(t, p, account), "the account %s is still there", account)
	}
	pattern := strings.ReplaceAll(database, "_", `\_`)
	for _, table := range []string{"db", "tables_priv", "columns_priv", "procs_priv"} {
		left := ReadAll(t, p.Admin(t), fmt.Sprintf("SELECT user FROM mysql.%s WHERE db IN ('%s', '%s')", table, database,
			strings.ReplaceAll(pattern, `\`, `\\`)))
		assert.Empty(t, left, "mysql.%s has privileges of", table)
	}
	const tablespaces = "SELECT COUNT(*) FROM information_schema.innodb_%stablespaces WHERE name LIKE CONCAT(?, '/%%')"
	sys := map[string]string{"mysql": "", "mariadb": "sys_"}[p.Server.Flavour]
	n := Read[int](t, p.Admin(t), fmt.Sprintf(tablespaces, sys), database)
	assert.True(t, n <= 0, "%d files of the database are left", n)
}

// ExpectTenants fails the test unless the server has just these many databases and accounts of tenants.
func ExpectTenants(t *testing.T, admin *sql.DB, databases, accounts int) {
	found := ReadAll(t, admin, `SELECT schema_name FROM information_schema.schemata
		WHERE schema_name LIKE 'db\_%' AND schema_name <> 'db_broker_marks'`)
	assert.Len(t, found, databases, "databases on the server: %q, want %d", found, databases)
	found = ReadAll(t, admin, `SELECT user FROM mysql.user WHERE user LIKE 'u\_%'`)
	assert.Len(t, found, accounts, "accounts on the server: %q, want %d", found, accounts)
}

func AccountExists(t *testing.T, p Platform, name string) bool {
	return Read[bool](t, p.Admin(t), "SELECT EXISTS (SELECT 1 FROM mysql.user WHERE user = ?)", name)
}

const QuotaInterval = time.Second

// Fill adds so many MiB to a table, which it makes.
func Fill(t *testing.T, db *sql.DB, mebibytes int) {
	Exec(t, db, "CREATE TABLE IF NOT EXISTS filler (id INT AUTO_INCREMENT PRIMARY KEY, content LONGBLOB)")
	for range mebibytes {
		Exec(t, db, "INSERT INTO filler (content) VALUES (REPEAT('x', 1 << 20))")
	}
}

const (
	InsertOne   = "INSERT INTO filler (content) VALUES ('y')"
	Denied      = 1142
	DeniedInAll = 1044
)

// Overfill adds to the table until the server refuses that. Meanwhile the session is ended. Of MiB, it adds no more
// than lead well over a quota of so many: DELETE could not make room of twice the quota.
func Overfill(t *testing.T, db *sql.DB, quota int) {
	Fill(t, db, 0)
	const well = 8
	there := Read[int](t, db, "SELECT COALESCE(SUM(LENGTH(content)), 0) DIV (1 << 20) FROM filler")
	Eventually(t, "the quota is enforced", func() bool {
		for there < quota+well && RefusalOf(t, db, "INSERT INTO filler (content) VALUES (REPEAT('x', 1 << 20))") == 0 {
			there++
		}
		return RefusalOf(t, db, InsertOne) == Denied
	})
}

// AwaitRefused waits until an account may add no data.
func AwaitRefused(t *testing.T, db *sql.DB) {
	Eventually(t, "inserts are refused", func() bool { return RefusalOf(t, db, InsertOne) == Denied })
}

func AwaitAllowed(t *testing.T, db *sql.DB) {
	Eventually(t, "inserts are allowed", func() bool { return ErrorOf(t, db, InsertOne) == nil })
}
