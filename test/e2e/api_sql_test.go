package e2e

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"mysql-broker/test/testdrive"
)

// exec runs statements one by one.
func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// read runs a query that yields one value.
func read[T any](t *testing.T, db *sql.DB, query string, args ...any) (value T) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

// awaitTrue polls a query that yields one boolean until it does hold.
func awaitTrue(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testdrive.Patience)
	defer cancel()
	for !read[bool](t, db, query, args...) {
		select {
		case <-ctx.Done():
			t.Fatalf("did not come true: %s", query)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
