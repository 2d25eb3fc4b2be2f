package mysqld

import (
	"slices"
	"strings"
)

// InitialOptions keep the files of an empty server small. They are those that can only be chosen, or are cheapest
// to choose, when a data directory is made.
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

// Settings are lines of a server's option file: all but its addresses, paths and keys, which differ between launchers.
// redoMB is what its redo log turned out to need; 0 if that is not known. MariaDB needs secure-file-priv besides, with
// a directory that holds nothing of others.
func Settings(flavour string, memoryMB, redoMB int) []string {
	return slices.Concat(commonSettings, flavourSettings[flavour], memorySettings(flavour, memoryMB, redoMB))
}

// commonSettings are for either flavour. Every commit is on disk before it is acknowledged.
var commonSettings = []string{
	"skip-name-resolve",
	"host-cache-size=0",
	"skip-log-bin",
	"innodb-flush-log-at-trx-commit=1",
	"character-set-server=utf8mb4",
	"log-bin-trust-function-creators=1", // else tenants need SUPER to make a trigger
	"local-infile=OFF",
	"key-buffer-size=64K",
	"thread-cache-size=8",
	"table-open-cache=400",
	"innodb-buffer-pool-dump-at-shutdown=OFF",
	"innodb-buffer-pool-load-at-startup=OFF",
}

// flavourSettings are for one flavour alone. What not every supported version knows is marked loose.
//
// They keep SQL away from the host's files. MySQL, from 8.0.21 on, of itself refuses CREATE TABLE … DATA DIRECTORY for
// directories that it does not know, and NULL turns off all that secure-file-priv confines. MariaDB ignores DATA
// DIRECTORY without symbolic links, and knows no NULL: there, the launcher names a directory.
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
		"event-scheduler=ON", // as on MySQL, else tenants' events would never run
		"innodb-log-buffer-size=2M",
		"innodb-temp-data-file-path=ibtmp1:4M:autoextend",
		"aria-pagecache-buffer-size=1M",
		"query-cache-size=0",
		"log-warnings=1",
	},
}

// RedoLogMB is the size of the redo log, which takes up the disk of a server that does nothing too: a sixteenth of the
// memory that a server of its own does not need, or what it turned out to need; neededMB is 0 if that is not known.
// MySQL stops for good where the changes of a few statements fill the log, so it gets more than the smallest that it
// knows, which is that of InitialOptions.
func RedoLogMB(flavour string, memoryMB, neededMB int) int {
	smallest := 64
	if flavour == MariaDB {
		smallest = 4
	}
	return max(smallest, (memoryMB-192)/16, neededMB)
}

// Quote writes a path as a value of an option file, in which "#" and spaces at the end mean something else.
// https://dev.mysql.com/doc/refman/8.4/en/option-files.html
func Quote(path string) string {
	return `"` + strings.ReplaceAll(path, `\`, `\\`) + `"`
}
