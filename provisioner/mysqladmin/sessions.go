package mysqladmin

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// connection is a connection of the server.
type connection struct {
	id       int64 // on another node of a cluster, see nodeShift
	user, db string
	command  string
	idle     bool          // no statement is running, or the last one was killed
	age      time.Duration // how long the command has been running, at least
}

// commandKilled is the command of a connection that was killed.
const commandKilled = "Killed"

// connections lists the wanted connections, which must not include the broker's own. For both flavours, listing all is
// far cheaper than a query of information_schema for a few.
func (s *Session) connections(ctx context.Context, wanted func(connection) bool) ([]connection, error) {
	all, err := s.server.processList(ctx, s.conn)
	if err != nil {
		return nil, s.fail("list sessions", err)
	}
	elsewhere, err := s.elsewhere(ctx)
	if err != nil {
		return nil, fmt.Errorf("list sessions on the other nodes: %w", err)
	}
	return slices.DeleteFunc(append(all, elsewhere...), func(c connection) bool { return !wanted(c) }), nil
}

func (s *Session) killEach(ctx context.Context, all []connection) error {
	for _, c := range all {
		if err := s.kill(ctx, c.id); err != nil {
			return err
		}
	}
	return nil
}

// The queries of processList. MySQL's SHOW PROCESSLIST waits for each client that holds back its response in
// COM_CHANGE_USER, for up to net_read_timeout. Any tenant can cause that again and again. The table, which needs the
// performance schema, waits for nobody.
// https://dev.mysql.com/doc/refman/8.4/en/performance-schema-processlist-table.html
const (
	showProcessList  = "SHOW PROCESSLIST"
	processListTable = "SELECT id, user, host, db, command, time FROM performance_schema.processlist"
)

// readsThreads reports whether the broker's account can read processListTable.
func (on Setup) readsThreads(ctx context.Context, flavour Flavour) (can bool, err error) {
	if flavour.Name != MySQL {
		return false, nil
	}
	err = on.s.reads.QueryRowContext(ctx,
		"SELECT EXISTS (SELECT 1 FROM performance_schema.processlist WHERE id = CONNECTION_ID())").Scan(&can)
	if hasNumber(err, errNoSuchTable) {
		return false, nil
	}
	_, err = accessDenied(err)
	return can, err
}

// processList includes connections that were killed, until they have rolled back. On MariaDB, they look like those
// whose statement was killed, by the tenant's own KILL QUERY or by Galera, and which go on with the next one.
func (s *Server) processList(ctx context.Context, on queryer) (all []connection, err error) {
	if s.readsThreads.Load() {
		// The broker's own connection is in the list, unless the list is empty because the server was restarted.
		all, err = connectionsIn(ctx, on, processListTable)
		if len(all) > 0 || err != nil && !hasNumber(err, errNoSuchTable) {
			return all, err
		}
	}
	return connectionsIn(ctx, on, showProcessList)
}

func connectionsIn(ctx context.Context, on queryer, query string) (all []connection, err error) {
	var c connection
	var host, seconds sql.RawBytes
	var user, db sql.NullString
	fields := []any{&c.id, &user, &host, &db, &c.command, &seconds}
	err = EachRow(ctx, on, query, func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		for len(fields) < len(columns) { // the additional columns of SHOW PROCESSLIST differ
			fields = append(fields, new(sql.RawBytes))
		}
		if err == nil {
			err = rows.Scan(fields...)
		}
		c.idle, c.age = c.command == "Sleep" || c.command == commandKilled, atLeast(string(seconds))
		c.user, c.db = user.String, db.String
		all = append(all, c)
		return err
	})
	return all, err
}

// atLeast returns the shortest duration that a value of the column Time can mean: the column is the difference of two
// times in whole seconds. It returns 0 if the value is not known.
func atLeast(seconds string) time.Duration {
	n, err := strconv.Atoi(seconds)
	if err != nil {
		return 0
	}
	return time.Duration(max(n-1, 0)) * time.Second
}

// kill kills a connection, if it exists.
func (s *Session) kill(ctx context.Context, connection int64) error {
	var err error
	if connection>>nodeShift > 0 {
		err = s.killElsewhere(ctx, connection)
	} else {
		err = s.exec(ctx, "KILL ?", connection)
	}
	if err != nil && !hasNumber(err, errNoSuchThread) {
		return fmt.Errorf("kill session: %w", err)
	}
	return nil
}

// OpenSessions counts the sessions that each of some accounts has open on the server.
func (s *Server) OpenSessions(ctx context.Context, accounts []string) (map[string]int, error) {
	all, err := s.processList(ctx, s.reads)
	if s.nodes != nil {
		all, err = s.nodes.connections(ctx, s)
	}
	if err != nil {
		return nil, s.explain("list the sessions", err)
	}
	open := make(map[string]int, len(accounts))
	for _, account := range accounts {
		open[account] = 0
	}
	for _, c := range all {
		if n, asked := open[c.user]; asked {
			open[c.user] = n + 1
		}
	}
	return open, nil
}

// Connections are the figures of a server's connections.
type Connections struct {
	Open int // now, the broker's own included
	Max  int // that the server allows
}

// Connections reads the figures of the server's connections. Any account may read them.
// https://dev.mysql.com/doc/refman/8.4/en/server-status-variables.html#statvar_Threads_connected
func (s *Server) Connections(ctx context.Context) (c Connections, err error) {
	err = s.reads.QueryRowContext(ctx, "SELECT @@GLOBAL.max_connections").Scan(&c.Max)
	if err == nil {
		err = s.reads.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_connected'").Scan(new(string), &c.Open)
	}
	return c, s.explain("count the server's connections", err)
}
