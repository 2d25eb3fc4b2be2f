package mysqladmin

import (
	"context"
	"fmt"
)

// kill ends a connection; one that has gone is fine.
func (s *Session) kill(ctx context.Context, connection int64) error {
	err := s.exec(ctx, "KILL ?", connection)
	if hasNumber(err, errNoSuchThread) {
		return nil
	}
	return err
}

// killAll ends the connections for which condition, on columns of information_schema.processlist, holds.
func (s *Session) killAll(ctx context.Context, condition string, args ...any) error {
	connections, err := s.connections(ctx, condition, args...)
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	return s.killEach(ctx, connections)
}

func (s *Session) killEach(ctx context.Context, connections []int64) error {
	for _, connection := range connections {
		if err := s.kill(ctx, connection); err != nil {
			return fmt.Errorf("kill session: %w", err)
		}
	}
	return nil
}

func (s *Session) connections(ctx context.Context, condition string, args ...any) (ids []int64, err error) {
	// A killed connection takes no more statements, though it is listed until it has rolled back.
	// #nosec G202 -- the conditions are constants of this package
	rows, err := s.conn.QueryContext(ctx, `SELECT id FROM information_schema.processlist
		WHERE id <> CONNECTION_ID() AND command <> 'Killed' AND (`+condition+`)`, args...)
	if err != nil {
		s.failed = true
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
