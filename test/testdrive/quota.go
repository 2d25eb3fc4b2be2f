package testdrive

import (
	"database/sql"
	"testing"
	"time"

	"mysql-broker/test/limits"
)

const (
	QuotaInterval = time.Second
	// QuotaTime is how long the broker may take to notice and act, on a busy machine.
	QuotaTime = limits.Stuck
)

// Fill adds so many MiB to a table, which it makes.
func Fill(t *testing.T, db *sql.DB, mebibytes int) {
	t.Helper()
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
	t.Helper()
	Fill(t, db, 0)
	const well = 8
	before := Read[int](t, db, "SELECT COALESCE(SUM(LENGTH(content)), 0) DIV (1 << 20) FROM filler")
	there := before
	Eventually(t, QuotaTime, "the quota is enforced", func() bool {
		for there < quota+well && RefusalOf(t, db, "INSERT INTO filler (content) VALUES (REPEAT('x', 1 << 20))") == 0 {
			there++
		}
		return RefusalOf(t, db, InsertOne) == Denied
	})
	t.Logf("after %d MiB more, INSERT is refused: %v", there-before, ErrorOf(t, db, InsertOne))
}

// AwaitRefused waits until an account may add no data.
func AwaitRefused(t *testing.T, db *sql.DB) {
	t.Helper()
	Eventually(t, QuotaTime, "inserts are refused", func() bool { return RefusalOf(t, db, InsertOne) == Denied })
}

func AwaitAllowed(t *testing.T, db *sql.DB) {
	t.Helper()
	since := time.Now()
	Eventually(t, QuotaTime, "inserts are allowed", func() bool {
		return ErrorOf(t, db, InsertOne) == nil
	})
	t.Logf("INSERT is allowed %v after there was room", time.Since(since).Round(time.Millisecond))
}
