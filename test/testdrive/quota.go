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
