package testdrive

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ExpireLeases lets the lease on every task in progress run out now, for tests whose subject is not how long that takes:
// others take over at once what a broker had that was killed.
func ExpireLeases(t testing.TB, database *pgxpool.Pool) {
	t.Helper()
	if _, err := database.Exec(t.Context(), "UPDATE task SET lease_until = now() WHERE state = 'in progress'"); err != nil {
		t.Fatal(err)
	}
}
