package mysqld

import (
	"slices"
	"strings"
)

// InitialOptions keep the files of an empty server small. These options must be set, or are cheapest to set, when the
// data directory is created.
var InitialOptions = map[string][]string{
	MySQL: {
		"--loose-innodb-redo-log-capacity=8M",
		"--loose-innodb-doublewrite-pages=8",
		"--innodb-buffer-pool-dump-at-shutdown=OFF",
		"--secure-file-priv=NULL",
		"--loose-auto-generate-certs=OFF",
		"--loose-caching-sha2-password-auto-generate-rsa-keys=OFF",
	},
	MariaDB: {"--innodb-log-file-size=4M"},
}

// Settings returns the lines of a server's option file except its addresses, paths and keys, which differ between
// launchers. redoMB is the redo log size that the server turned out to need; 0 if unknown. MariaDB also needs
// secure-file-priv, with a directory that holds no files of others. binaryLogs says whether the server keeps binary
// logs, for their archive.
func Settings(flavour string, memoryMB, redoMB int, binaryLogs bool) []string {
	logs := []string{"skip-log-bin"}
	if binaryLogs {
		logs = slices.Concat(logSettings, flavourLogSettings[flavour])
	}
	return slices.Concat(commonSettings, logs, flavourSettings[flavour], memorySettings(flavour, memoryMB, redoMB))
}

// logSettings are the settings of a server whose binary logs are archived. A commit is in the logs before it is
// acknowledged. The broker purges files that are archived. If no broker runs, the server keeps them for three days.
var logSettings = []string{
	"log-bin=binlog",
	"server-id=1",
	"sync-binlog=1",
	"binlog-row-image=FULL",
	"binlog-checksum=CRC32",
	"max-binlog-size=16M",
	"loose-binlog-expire-logs-seconds=259200",
}

// MySQL writes rows by default, and warns about the setting. MariaDB would add the text of each statement to its rows.
var flavourLogSettings = map[string][]string{
	MySQL:   {"gtid-mode=ON", "enforce-gtid-consistency=ON"},
	MariaDB: {"binlog-format=ROW", "binlog-annotate-row-events=OFF"},
}

// commonSettings are for both flavours. Every commit is on disk before it is acknowledged.
var commonSettings = []string{
	"skip-name-resolve",
	"host-cache-size=0",
	"innodb-flush-log-at-trx-commit=1",
	"character-set-server=utf8mb4",
	"log-bin-trust-function-creators=1", // otherwise tenants need SUPER to create a trigger
	"local-infile=OFF",
	"key-buffer-size=64K",
	"thread-cache-size=8",
	"table-open-cache=400",
	"innodb-buffer-pool-dump-at-shutdown=OFF",
	"innodb-buffer-pool-load-at-startup=OFF",
}

// flavourSettings are for one flavour. Settings that some supported versions do not know are marked loose.
//
// They keep SQL away from the host's files. From 8.0.21 on, MySQL refuses CREATE TABLE … DATA DIRECTORY for directories
// that it does not know; secure-file-priv=NULL disables everything that the setting confines. MariaDB ignores DATA
// DIRECTORY without symbolic links, and does not know NULL, so its launcher sets a directory.
//
// MariaDB writes large intermediate results to tables of Aria. A row keeps a page of 8 KiB for each of its texts and
// blobs, of which there are at most 2,590. If the cache has no page left, all statements that need one wait forever,
// and in the end logins.
// https://dev.mysql.com/doc/refman/8.4/en/server-system-variables.html
// https://mariadb.com/kb/en/server-system-variables/
var flavourSettings = map[string][]string{
	MySQL: {
		"secure-file-priv=NULL",
		"loose-mysqlx=0",
		"performance-schema=OFF",
		"table-definition-cache=400",
		"temptable-max-ram=2M",
		"loose-innodb-doublewrite-pages=8",
		"innodb-log-buffer-size=1M",
		"innodb-read-io-threads=1",
		"innodb-write-io-threads=1",
		"loose-innodb-validate-tablespace-paths=OFF",
		"loose-auto-generate-certs=OFF",
	},
	MariaDB: {
		"skip-symbolic-links",
		"event-scheduler=ON", // as on MySQL; otherwise tenants' events would never run
		"innodb-log-buffer-size=2M",
		"innodb-temp-data-file-path=ibtmp1:4M:autoextend",
		"aria-pagecache-buffer-size=24M",
		"query-cache-size=0",
		"log-warnings=1",
	},
}

// RedoLogMB is the size of the redo log, which uses disk space even on an idle server. It is a sixteenth of the memory
// above 192 MiB, or neededMB if that is larger; neededMB is 0 if unknown. MySQL hangs for good if a few statements fill
// the log, so it gets more than the smallest possible size, which InitialOptions use.
func RedoLogMB(flavour string, memoryMB, neededMB int) int {
	smallest := 64
	if flavour == MariaDB {
		smallest = 4
	}
	return max(smallest, (memoryMB-192)/16, neededMB)
}

// Quote quotes a path for an option file, where "#" and trailing spaces have a special meaning.
// https://dev.mysql.com/doc/refman/8.4/en/option-files.html
func Quote(path string) string {
	return `"` + strings.ReplaceAll(path, `\`, `\\`) + `"`
}
