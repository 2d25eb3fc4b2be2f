package testdrive

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ExpireLeases makes the lease on every task in progress expire now, so that another broker takes over a killed
// broker's tasks at once. It is for tests that do not measure how long that takes.
func ExpireLeases(t testing.TB, database *pgxpool.Pool) {
	t.Helper()
	if _, err := database.Exec(t.Context(), "UPDATE task SET lease_until = now() WHERE state = 'in progress'"); err != nil {
		t.Fatal(err)
	}
}
