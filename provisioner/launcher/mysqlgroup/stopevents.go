package mysqlgroup

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// eventTime is how long an event that runs may take to end. Afterwards it is ended, as the server does when it stops.
const eventTime = 3 * time.Second

// StopEvents keeps a member from running events until it starts again, and returns once none runs. It is due before a
// member stops: the plugin of MySQL 9.7.4 never stops if an event commits meanwhile, so that the server has to be
// killed.
func StopEvents(ctx context.Context, member *sql.Conn) error {
	if err := exec(ctx, member, "SET GLOBAL event_scheduler=OFF"); err != nil {
		return err
	}
	for began := time.Now(); ; {
		running, err := runningEvents(ctx, member)
		if err != nil || len(running) == 0 {
			return err
		}
		if time.Since(began) > eventTime {
			return endEvents(ctx, member, running)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// runningEvents returns the numbers of the sessions of events.
func runningEvents(ctx context.Context, member *sql.Conn) (sessions []int64, err error) {
	rows, err := member.QueryContext(ctx, "SELECT processlist_id FROM performance_schema.threads "+
		"WHERE name = 'thread/sql/event_worker' AND processlist_id IS NOT NULL")
	if err != nil {
		return nil, fmt.Errorf("list the events that run: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var session int64
		if err := rows.Scan(&session); err != nil {
			return nil, err
		}
		sessions = append(sessions, session)
	}
	return sessions, rows.Err()
}

func endEvents(ctx context.Context, member *sql.Conn, sessions []int64) error {
	for _, session := range sessions {
		err := exec(ctx, member, fmt.Sprintf("KILL %d", session))
		if err != nil && !isNoSession(err) {
			return err
		}
	}
	return nil
}
