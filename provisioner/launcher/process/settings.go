package process

import (
	"fmt"
	"strings"
)

// templateOptions keep the files of an empty server small. They are those that can only be chosen, or are cheapest
// to choose, when a data directory is made.
var templateOptions = map[string][]string{
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

const socketName = "mysqld.sock"

// commonSettings are for either flavour. Every commit is on disk before it is acknowledged.
var commonSettings = []string{
	"socket=" + socketName, // in the data directory, so that its path cannot exceed the 107 bytes a socket's may have
	"pid-file=mysqld.pid",
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
// DIRECTORY without symbolic links, and knows no NULL: see settings.
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

// settings is the content of the settings file of one server. It holds no secret.
func (l *Launcher) settings(inst instance, st state) []byte {
	lines := []string{
		"# Written when the server starts; changes are lost.",
		"[mysqld]",
		fmt.Sprintf("port=%d", st.Port),
		"bind-address=" + l.cfg.BindAddress,
		"basedir=" + quote(l.cfg.Binary.BaseDir),
		"datadir=" + quote(inst.dataDir()),
		"tmpdir=" + quote(inst.tmpDir()),
		"ssl-ca=" + quote(inst.caFile()),
		"ssl-cert=" + quote(inst.certificateFile()),
		"ssl-key=" + quote(inst.keyFile()),
	}
	lines = append(lines, commonSettings...)
	lines = append(lines, flavourSettings[l.cfg.Binary.Flavour]...)
	lines = append(lines, memorySettings(l.cfg.Binary.Flavour, st)...)
	if l.cfg.Binary.Flavour == MariaDB {
		lines = append(lines, "secure-file-priv="+quote(inst.tmpDir()))
	} else {
		lines = append(lines, rsaSettings(inst)...)
	}
	lines = append(lines, l.cfg.Settings...)
	return []byte(strings.Join(lines, "\n") + "\n")
}

// memorySettings divide the memory of a plan, in MiB: about 192 are needed by the server itself and by its
// connections, the rest is buffer pool, to at most 60 %. What one session may take for itself is bounded: what it sets
// beyond a maximum is cut down to that. No setting of either flavour bounds user variables; see dataLimitMB.
//
// MySQL's connection_memory_limit counts nothing while the performance schema is off, and not user variables either.
// https://dev.mysql.com/doc/refman/8.4/en/server-options.html#option_mysqld_maximum-var-name
// https://mariadb.com/kb/en/server-system-variables/#max_session_mem_used
func memorySettings(flavour string, st state) []string {
	pool := max(16, min(st.MemoryMB-192, st.MemoryMB*6/10))
	redoName := "loose-innodb-redo-log-capacity"
	if flavour == MariaDB {
		redoName = "innodb-log-file-size"
	}
	buffer := max(16, st.MemoryMB/16)
	lines := []string{
		fmt.Sprintf("innodb-buffer-pool-size=%dM", pool),
		fmt.Sprintf("%s=%dM", redoName, st.redoLogMB(flavour)),
		fmt.Sprintf("max-connections=%d", maxConnections(st.MemoryMB)),
		fmt.Sprintf("max-allowed-packet=%dM", min(64, buffer)),
		fmt.Sprintf("max-prepared-stmt-count=%d", min(16382, 16*st.MemoryMB)),
	}
	for _, name := range []string{"sort-buffer-size", "join-buffer-size", "read-buffer-size", "read-rnd-buffer-size",
		"tmp-table-size", "max-heap-table-size", "group-concat-max-len"} {
		lines = append(lines, fmt.Sprintf("maximum-%s=%dM", name, buffer))
	}
	if flavour == MariaDB {
		session := max(64, st.MemoryMB/4)
		lines = append(lines, fmt.Sprintf("max-session-mem-used=%dM", session),
			fmt.Sprintf("maximum-max-session-mem-used=%dM", session))
	}
	return lines
}

func maxConnections(memoryMB int) int { return max(151, memoryMB/2) }

// redoLogMB is the size of the redo log, which takes up the disk of a server that does nothing too: a sixteenth of the
// memory that a server of its own does not need, or what it turned out to need. MySQL stops for good where the changes
// of a few statements fill the log, so it gets more than the smallest that it knows, which is that of the templates.
func (st state) redoLogMB(flavour string) int {
	smallest := 64
	if flavour == MariaDB {
		smallest = 4
	}
	return max(smallest, (st.MemoryMB-192)/16, st.RedoMB)
}

// quote writes a path as a value of an option file, in which "#" and spaces at the end mean something else.
// https://dev.mysql.com/doc/refman/8.4/en/option-files.html
func quote(path string) string {
	return `"` + strings.ReplaceAll(path, `\`, `\\`) + `"`
}
