package mysqlgroup

import (
	"context"
	"database/sql"
	"strings"
)

// Look is what a member says of itself.
type Look struct {
	Err      error  // why it does not respond; the rest is then empty
	State    string // as MySQL names it
	Majority bool   // it sees most members of its group
	Primary  bool
	Queue    int               // transactions that it has received and not applied yet
	Offline  bool              // it refuses applications
	Executed string            // transactions
	Received string            // transactions of other members that it has in its relay logs, or had; some not executed
	Leader   string            // host:port of the primary that it knows
	Knows    []string          // host:port of the members that it knows
	Copied   uint64            // bytes of the data that it gets from another member by the plugin clone
	Logs     []Log             // its binary logs, the oldest first
	Events   map[string]string // their states, by schema.name
}

// Online reports whether a member takes part in a group that has a majority.
func (m Look) Online() bool { return m.State == "ONLINE" && m.Majority }

// Out reports whether a member responds and is in no group.
func (m Look) Out() bool { return m.Err == nil && (m.State == "OFFLINE" || m.State == "ERROR") }

// CountOnline returns how many members are online.
func CountOnline(all []Look) (online int) {
	for _, m := range all {
		if m.Online() {
			online++
		}
	}
	return online
}

// CountEmpty returns how many members have no transactions.
func CountEmpty(all []Look) (empty int) {
	for _, m := range all {
		if m.Executed == "" {
			empty++
		}
	}
	return empty
}

// AllOnline reports whether all members are online.
func AllOnline(all []Look) bool { return CountOnline(all) == len(all) }

// Primary returns which member is the primary, or -1.
func Primary(all []Look) int {
	for n, m := range all {
		if m.Online() && m.Primary {
			return n
		}
	}
	return -1
}

// lookQuery asks a member about itself.
// https://dev.mysql.com/doc/refman/8.4/en/performance-schema-replication-group-members-table.html
const lookQuery = `SELECT COALESCE(MAX(IF(member_id = @@GLOBAL.server_uuid, member_state, NULL)), 'OFFLINE'),
	COALESCE(SUM(member_state IN ('ONLINE', 'RECOVERING')), 0) * 2 > COUNT(*),
	COALESCE(MAX(member_id = @@GLOBAL.server_uuid AND member_role = 'PRIMARY'), 0),
	(SELECT COALESCE(SUM(count_transactions_in_queue + count_transactions_remote_in_applier_queue), 0)
		FROM performance_schema.replication_group_member_stats WHERE member_id = @@GLOBAL.server_uuid),
	@@GLOBAL.offline_mode, @@GLOBAL.gtid_executed, COALESCE(GROUP_CONCAT(member_host, ':', member_port), ''),
	COALESCE(MAX(IF(member_role = 'PRIMARY', CONCAT(member_host, ':', member_port), NULL)), ''),
	COALESCE((SELECT MAX(received_transaction_set) FROM performance_schema.replication_connection_status
		WHERE channel_name = 'group_replication_applier'), ''),
	(SELECT COALESCE(SUM(data), 0) FROM performance_schema.clone_progress)
	FROM performance_schema.replication_group_members`

// Ask reads what a member says of itself. Err is set if that fails.
func Ask(ctx context.Context, member *sql.Conn) (m Look, err error) {
	var knows string
	err = member.QueryRowContext(ctx, lookQuery).Scan(&m.State, &m.Majority, &m.Primary, &m.Queue, &m.Offline,
		&m.Executed, &knows, &m.Leader, &m.Received, &m.Copied)
	if err != nil {
		return Look{Err: err}, err
	}
	m.Executed, m.Received = strings.ReplaceAll(m.Executed, "\n", ""), strings.ReplaceAll(m.Received, "\n", "")
	m.Knows = strings.Split(knows, ",")
	if m.Logs, err = askLogs(ctx, member); err != nil {
		return Look{Err: err}, err
	}
	if m.Events, err = AskEvents(ctx, member); err != nil {
		return Look{Err: err}, err
	}
	return m, nil
}
