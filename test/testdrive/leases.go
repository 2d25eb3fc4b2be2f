package testdrive

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ExpireLeases makes the lease on every task in progress expire now, so that another broker takes over a killed
// broker's tasks at once. It is for tests that do not measure how long that takes.
func ExpireLeases(t testing.TB, database *pgxpool.Pool) {
	t.Helper()
	expireLeases(t, database, "TRUE")
}

// ExpireLeasesOfHolder is ExpireLeases for those of the broker that works on an instance.
func ExpireLeasesOfHolder(t testing.TB, database *pgxpool.Pool, instanceID string) {
	t.Helper()
	expireLeases(t, database, "lease_owner IN (SELECT lease_owner FROM task WHERE instance_id = $1)", instanceID)
}

// expireLeases tells the brokers, which learn of it at their next look otherwise.
func expireLeases(t testing.TB, database *pgxpool.Pool, condition string, args ...any) {
	t.Helper()
	if _, err := database.Exec(t.Context(), `WITH expired AS (UPDATE task SET lease_until = now()
			WHERE state = 'in progress' AND lease_until > now() AND `+condition+` RETURNING id)
		SELECT pg_notify('mysql_broker', '') FROM expired`, args...); err != nil {
		t.Fatal(err)
	}
}
