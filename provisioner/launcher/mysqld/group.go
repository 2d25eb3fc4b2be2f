package mysqld

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// GroupUser is the account by which members of a group get data from each other, and by which a launcher asks a member
// for its state.
const GroupUser = "broker_group"

// Group is what a member of a group of MySQL servers knows: Group Replication with a single primary.
type Group struct {
	Name      string   // a UUID
	Hosts     []string // of all members, as they reach each other
	Addresses []string // host:port
	Protocol  []string // the same, for the protocol of the group
}

// groupMemoryMB is what a member needs besides the memory of a server without a group.
const groupMemoryMB = 256

// GroupSettings returns the lines of an option file that make a server the nth member of a group, counted from 1. They
// come after those of Settings, with binary logs.
//
// The protocol of the group has ports of its own: over those of applications (communication_stack=MYSQL), a member logs
// in to another one to connect again, and a statement that changes an account there keeps it from logging in until the
// group has agreed to the statement, which it then never does. A server is read-only until the group makes it the
// primary. Whoever logs in to a member that is not the primary is refused by init-connect, with an error for which
// drivers try the next host of a list (1184, 08S01). So is whoever takes one of the last connections: the group itself
// uses that which MySQL reserves for administrators. It does not apply to them. A member that was cut off leaves the
// group and ends the sessions of applications.
// https://dev.mysql.com/doc/refman/8.4/en/group-replication-options.html
// https://dev.mysql.com/doc/refman/8.4/en/server-system-variables.html#sysvar_init_connect
func GroupSettings(g Group, n, memoryMB int) []string {
	host, port, _ := net.SplitHostPort(g.Addresses[n-1])
	lines := []string{
		fmt.Sprintf("innodb-buffer-pool-size=%dM", max(16, min(memoryMB-192-groupMemoryMB, memoryMB*6/10))),
		fmt.Sprintf("server-id=%d", n),
		"report-host=" + host,
		"report-port=" + port,
		"relay-log=relay",
		"loose-binlog-expire-logs-seconds=3600", // a member that was away for longer gets a copy of the data
		"sql-require-primary-key=ON",
		"super-read-only=ON",
		`init-connect="DO IF(@@GLOBAL.super_read_only OR (SELECT variable_value FROM performance_schema.global_status ` +
			`WHERE variable_name = 'Threads_connected') > @@GLOBAL.max_connections - 5, (SELECT 1 UNION SELECT 2), 0)"`,
		"plugin-load-add=group_replication.so",
		"plugin-load-add=mysql_clone.so",
	}
	for _, setting := range []string{
		"group_name=" + g.Name,
		"start_on_boot=OFF", // the launcher starts it
		"local_address=" + g.Protocol[n-1],
		"group_seeds=" + strings.Join(g.Protocol, ","),
		"ip_allowlist=" + strings.Join(g.Hosts, ","),
		"ssl_mode=REQUIRED",
		"recovery_use_ssl=ON",
		"recovery_reconnect_interval=5", // seconds
		"member_expel_timeout=0",
		"unreachable_majority_timeout=10",
		"autorejoin_tries=0", // the launcher lets it join again
		"exit_state_action=OFFLINE_MODE",
		"message_cache_size=134217728",
	} {
		lines = append(lines, "loose-group_replication_"+setting)
	}
	return lines
}

// MemberSQL returns an init file, one statement per line, that runs at every start of a member, with the account of the
// administrator that admin makes. What it does on one member is written to no binary log. It is over before anybody can
// log in. CheckAdminPassword must have accepted the password.
// https://dev.mysql.com/doc/refman/8.4/en/group-replication-distributed-recovery-connections.html
func MemberSQL(admin []byte, password string) []byte {
	account := "'" + GroupUser + "'@'%'"
	group := fmt.Appendf(nil, "CREATE USER IF NOT EXISTS %[1]s;\n"+
		"ALTER USER %[1]s IDENTIFIED BY '%[2]s';\n"+
		"GRANT REPLICATION SLAVE, REPLICATION CLIENT, CONNECTION_ADMIN, BACKUP_ADMIN, BINLOG_ADMIN, "+
		"GROUP_REPLICATION_ADMIN, SYSTEM_VARIABLES_ADMIN, EVENT, SET_ANY_DEFINER, ALLOW_NONEXISTENT_DEFINER "+
		"ON *.* TO %[1]s;\n"+
		"GRANT SELECT ON performance_schema.* TO %[1]s;\nSET SESSION sql_log_bin=1;\n"+
		"CHANGE REPLICATION SOURCE TO SOURCE_USER='%[3]s', SOURCE_PASSWORD='%[2]s' "+
		"FOR CHANNEL 'group_replication_recovery';\n", account, password, GroupUser)
	return slices.Concat([]byte("SET GLOBAL super_read_only=OFF;\nSET SESSION sql_log_bin=0;\n"), admin, group,
		[]byte("SET GLOBAL super_read_only=ON;\n"))
}
