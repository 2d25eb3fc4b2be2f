package testdrive

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/test/limits"
)

// Exec runs statements one by one.
func Exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// Read runs a query that yields one value.
func Read[T any](t *testing.T, db *sql.DB, query string, args ...any) (value T) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

// AwaitTrue polls a query that yields one boolean until it does hold.
func AwaitTrue(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
	defer cancel()
	for !Read[bool](t, db, query, args...) {
		select {
		case <-ctx.Done():
			t.Fatalf("did not come true: %s", query)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ReadAll is the first column of a query.
func ReadAll(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
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
	t.Helper()
	return ErrorNumber(ErrorOf(t, db, statement))
}

func ErrorOf(t *testing.T, db *sql.DB, statement string) error {
	t.Helper()
	_, err := db.ExecContext(t.Context(), statement)
	return err
}
