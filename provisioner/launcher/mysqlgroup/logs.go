package mysqlgroup

import (
	"context"
	"database/sql"
	"slices"
)

// Log is a binary log of a member.
type Log struct {
	Name  string
	Bytes int64
}

// askLogs lists the binary logs of a member.
// https://dev.mysql.com/doc/refman/8.4/en/show-binary-logs.html
func askLogs(ctx context.Context, member *sql.Conn) (all []Log, err error) {
	rows, err := member.QueryContext(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var l Log
		if err := rows.Scan(&l.Name, &l.Bytes, new(sql.RawBytes)); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, rows.Err()
}

// leastLogs is how many bytes of binary logs a member may keep, however little room there is.
const leastLogs = 64 << 20

// oldestKept returns the oldest log that a member keeps if it may keep so many bytes, or "" if it keeps all. The last
// one is in use.
func oldestKept(all []Log, most int64) string {
	left := max(most, leastLogs)
	for n, l := range slices.Backward(all) {
		if left -= l.Bytes; left < 0 && n < len(all)-1 {
			return all[n+1].Name
		}
	}
	return ""
}

// Purge has a member delete the binary logs before one. A member that still needs them gets a copy of all data instead.
func Purge(ctx context.Context, member *sql.Conn, oldest string) error {
	return exec(ctx, member, "PURGE BINARY LOGS TO '"+oldest+"'")
}
