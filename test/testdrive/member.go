package testdrive

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"
)

// LogMember logs what a member of Group Replication says of itself, which is gone once a test has ended.
func LogMember(t testing.TB, name string, member *sql.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, query := range []string{
		"SELECT RIGHT(member_id, 4), member_state, member_role FROM performance_schema.replication_group_members",
		"SELECT @@GLOBAL.gtid_executed",
		`SELECT channel_name, service_state, received_transaction_set, last_error_message
			FROM performance_schema.replication_connection_status`,
		`SELECT channel_name, service_state, last_error_message
			FROM performance_schema.replication_applier_status_by_coordinator`,
		`SELECT channel_name, last_applied_transaction, applying_transaction, last_error_message
			FROM performance_schema.replication_applier_status_by_worker`,
		`SELECT count_transactions_in_queue, count_transactions_remote_in_applier_queue
			FROM performance_schema.replication_group_member_stats WHERE member_id = @@server_uuid`,
		`SELECT id, user, command, time, state, info FROM performance_schema.processlist`,
		`SELECT * FROM (SELECT logged, prio, LEFT(data, 200) FROM performance_schema.error_log
			WHERE data NOT LIKE '%handshake%' ORDER BY logged DESC LIMIT 25) l ORDER BY logged`,
	} {
		t.Logf("%s: %s", name, printed(ctx, member, query))
	}
}

// printed returns the rows of a query, or its error, one in a line.
func printed(ctx context.Context, db *sql.DB, query string) string {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err.Error()
	}
	var all strings.Builder
	for rows.Next() {
		row := make([]sql.NullString, len(columns))
		into := make([]any, len(row))
		for n := range row {
			into[n] = &row[n]
		}
		if err := rows.Scan(into...); err != nil {
			return err.Error()
		}
		for _, v := range row {
			all.WriteString(v.String + " | ")
		}
		all.WriteString("\n")
	}
	return all.String()
}
