package mysqladmin

import (
	"context"
	"database/sql"
	"fmt"
)

// connection is one of the server's.
type connection struct {
	id       int64
	user, db string
	idle     bool // no statement is under way
}

// underWay tells whether nobody has logged in on it yet. Whose it will be, the server does not tell.
func (c connection) underWay() bool { return c.user == "unauthenticated user" }

// connections lists those that are wanted, which must be none of the broker's own. SHOW PROCESSLIST costs both flavours
// far less than to ask information_schema for a few. https://dev.mysql.com/doc/refman/8.4/en/show-processlist.html
func (s *Session) connections(ctx context.Context, wanted func(connection) bool) ([]connection, error) {
	all, err := processList(ctx, s.conn)
	if err != nil {
		s.failed = true
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var found []connection
	for _, c := range all {
		if wanted(c) {
			found = append(found, c)
		}
	}
	return found, nil
}

// killEach ends connections.
func (s *Session) killEach(ctx context.Context, all []connection) error {
	for _, c := range all {
		if err := s.kill(ctx, c.id); err != nil {
			return err
		}
	}
	return nil
}

// processList leaves out connections that were killed: they take no more statements, though they are listed until they
// have rolled back.
func processList(ctx context.Context, on queryer) (all []connection, err error) {
	rows, err := on.QueryContext(ctx, "SHOW PROCESSLIST")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var c connection
	var host, command sql.RawBytes
	var db sql.NullString
	fields := []any{&c.id, &c.user, &host, &db, &command}
	for len(fields) < len(columns) { // MariaDB has one more
		fields = append(fields, new(sql.RawBytes))
	}
	for rows.Next() {
		if err := rows.Scan(fields...); err != nil {
			return nil, err
		}
		c.idle = string(command) == "Sleep"
		if c.db = db.String; string(command) != "Killed" {
			all = append(all, c)
		}
	}
	return all, rows.Err()
}

// kill ends a connection; one that has gone is fine.
func (s *Session) kill(ctx context.Context, connection int64) error {
	err := s.exec(ctx, "KILL ?", connection)
	if err != nil && !hasNumber(err, errNoSuchThread) {
		return fmt.Errorf("kill session: %w", err)
	}
	return nil
}
