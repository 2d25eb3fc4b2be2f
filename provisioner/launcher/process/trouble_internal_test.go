package process

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Of MariaDB 10.11.19 and MySQL 9.7.4, which were started on a full disk, without the lines that do not matter.
const (
	mariaDBStarts = "[Note] Starting MariaDB 10.11.19-MariaDB-0+deb12u1 source revision 5843d84 server_uid fXdYp7Z= as process 19212\n"
	mariaDBFull   = "2026-11-23 23:08:19 0 [ERROR] mariadbd: Error writing file './ddl_recovery.log' " +
		"(Errcode: 28 \"No space left on device\")\n2026-11-23 23:08:19 0 [ERROR] Aborting\n"
	mysqlStarts = "Z 0 [System] [MY-010116] [Server] /opt/mysql-9.7/bin/mysqld (mysqld 9.7.4) starting as process 21\n"
	mysqlFull   = "2026-11-23T23:08:19.2Z 1 [ERROR] [MY-012639] [InnoDB] Write to file ./ibtmp1 failed at offset 0, 1048576 " +
		"bytes should have been written, only 0 were written. Operating system error number 28. Check that your OS and file " +
		"system support files of this size. Check also that the disk is not full or a disk quota exceeded.\n"
)

func TestStartsOnFullDisk(t *testing.T) {
	t.Parallel()
	start := func(at, rest string) string { return "2026-11-23 " + at + " 0 " + mariaDBStarts + rest }
	mysql := func(at, rest string) string { return "2026-11-23T" + at + ".123456" + mysqlStarts + rest }
	const ready = "2026-11-23 23:08:20 0 [Note] mariadbd: ready for connections.\n"
	for _, test := range []struct {
		name, log string
		want      int
	}{
		{"no start", "a line\n", 0},
		{"three in a row", start("23:08:18", mariaDBFull) + start("23:08:21", mariaDBFull) + start("23:08:25", mariaDBFull), 3},
		{"the next one goes on", start("23:08:18", mariaDBFull) + start("23:08:21", mariaDBFull) + start("23:08:25", ""), 2},
		{"of MySQL", mysql("23:08:18", mysqlFull) + mysql("23:08:21", mysqlFull), 2},
		{"for another reason", start("23:08:18", mariaDBFull) + start("23:08:21", ready) + start("23:08:25", mariaDBFull), 1},
		{"long after the other", start("22:08:18", mariaDBFull) + start("23:08:21", mariaDBFull), 1},
		{"the end of a log", mariaDBFull + start("23:08:21", mariaDBFull), 1},
	} {
		assert.Equal(t, test.want, startsOnFullDisk(test.log), test.name)
	}
}

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
