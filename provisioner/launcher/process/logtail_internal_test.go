package process

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server logs more about the sessions that it ends than about its end. One that was asked to stop was not killed.
func TestShutDown(t *testing.T) {
	t.Parallel()
	const (
		ready = "2026-11-26T01:00:00Z 0 [System] [MY-010931] [Server] mysqld: ready for connections.\n"
		order = "2026-11-26T01:00:01Z 0 [System] [MY-013172] [Server] Received SHUTDOWN from user root.\n"
		last  = "2026-11-26T01:00:04Z 0 [System] [MY-010910] [Server] mysqld: Shutdown complete (mysqld 9.7.4)\n"
	)
	ends := strings.Repeat("2026-11-26T01:00:02Z 0 [Warning] [MY-010909] [Server] mysqld: Forcing close of thread 8.\n", 200)
	for log, want := range map[string]bool{
		ready + order + ends + last:         true,
		ready + order + ends + last + ready: false,
		ready + order + ends:                false,
		ready:                               false,
		"":                                  false,
	} {
		sd := serverDir{dir: t.TempDir()}
		require.NoError(t, os.WriteFile(sd.logFile(), []byte(log), 0o600))
		assert.Equal(t, want, shutDown(readLogEnd(sd, endLogBytes)), "%.200q: shut down", log)
	}
}

// Of MariaDB 10.11.19 and MySQL 9.7.4, whose data directories were denied to them.
func TestDenied(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`[ERROR] mariadbd: Can't create/write to file './ddl_recovery.log' (Errcode: 13 "Permission denied")`:              true,
		"[ERROR] [MY-010460] [Server] --initialize specified but the data directory exists and is not writable. Aborting.": true,
		"[ERROR] mariadbd: Error writing file './ddl_recovery.log' (Errcode: 28 \"No space left on device\")":              false,
	} {
		assert.Equal(t, want, denied.MatchString(line), "%s: %t", line, !want)
	}
}
