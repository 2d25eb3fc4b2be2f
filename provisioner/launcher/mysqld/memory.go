package mysqld

import "fmt"

// memorySettings divide the memory of a plan, in MiB. The server itself and its connections need about 192; the rest,
// up to 60 % of the total, is buffer pool. The memory of one session is bounded: a value above a maximum is reduced to
// that maximum. No setting of either flavour bounds user variables; see DataLimitMB.
//
// MySQL's connection_memory_limit has no effect while the performance schema is off, and does not count user variables.
// https://dev.mysql.com/doc/refman/8.4/en/server-options.html#option_mysqld_maximum-var-name
// https://mariadb.com/kb/en/server-system-variables/#max_session_mem_used
func memorySettings(flavour string, memoryMB, redoMB int) []string {
	pool := max(16, min(memoryMB-192, memoryMB*6/10))
	redoName := "loose-innodb-redo-log-capacity"
	if flavour == MariaDB {
		redoName = "innodb-log-file-size"
	}
	buffer := max(16, memoryMB/16)
	lines := []string{
		fmt.Sprintf("innodb-buffer-pool-size=%dM", pool),
		fmt.Sprintf("%s=%dM", redoName, RedoLogMB(flavour, memoryMB, redoMB)),
		fmt.Sprintf("max-connections=%d", maxConnections(memoryMB)),
		fmt.Sprintf("max-allowed-packet=%dM", MaxPacketMB(memoryMB)),
		fmt.Sprintf("max-prepared-stmt-count=%d", min(16382, 16*memoryMB)),
	}
	for _, name := range []string{"sort-buffer-size", "join-buffer-size", "read-buffer-size", "read-rnd-buffer-size",
		"tmp-table-size", "max-heap-table-size", "group-concat-max-len"} {
		lines = append(lines, fmt.Sprintf("maximum-%s=%dM", name, buffer))
	}
	if flavour == MariaDB {
		session := max(64, memoryMB/4)
		lines = append(lines, fmt.Sprintf("max-session-mem-used=%dM", session),
			fmt.Sprintf("maximum-max-session-mem-used=%dM", session))
	}
	return lines
}

// MaxPacketMB is max_allowed_packet of a server, in MiB.
func MaxPacketMB(memoryMB int) int { return min(64, max(16, memoryMB/16)) }

func maxConnections(memoryMB int) int { return max(151, memoryMB/2) }

// DataLimitMB is how much memory a server may reserve (RLIMIT_DATA), in MiB: the memory of its plan, plus what it
// reserves and never uses, mostly the stacks of its threads. At the limit a statement fails, usually with "Out of
// memory". A server that cannot continue without the memory exits and is restarted.
//
// Only this limit bounds user variables, of which a session may have any number.
// https://man7.org/linux/man-pages/man2/getrlimit.2.html
func DataLimitMB(flavour string, memoryMB int) int {
	reserved := 192
	if flavour == MariaDB {
		reserved = 128
	}
	return memoryMB + reserved + maxConnections(memoryMB)*StackKB[flavour]/1024
}

// StackKB is what the thread of one connection reserves, in KiB: the default of thread_stack.
var StackKB = map[string]int{MySQL: 1024, MariaDB: 292}
