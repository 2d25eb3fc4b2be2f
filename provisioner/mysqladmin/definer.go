package mysqladmin

import (
	"context"
	"database/sql"
)

// Statements that take a database and a definer, for each kind of object.
const (
	definesTables = `EXISTS (SELECT 1 FROM information_schema.views WHERE table_schema = ? AND definer = ?) OR
		EXISTS (SELECT 1 FROM information_schema.triggers WHERE trigger_schema = ? AND definer = ?)`
	definesPrograms = `EXISTS (SELECT 1 FROM information_schema.routines WHERE routine_schema = ? AND definer = ?) OR
		EXISTS (SELECT 1 FROM information_schema.events WHERE event_schema = ? AND definer = ?)`
	definesProgramsMariaDB = `EXISTS (SELECT 1 FROM mysql.proc WHERE db = ? AND definer = ?) OR
		EXISTS (SELECT 1 FROM mysql.event WHERE db = ? AND definer = ?)`
)

// defines reports whether an account is the definer of a view, trigger, routine or event in a database. For each query
// of definers in information_schema, MariaDB fills a temporary table with room for large texts. defines avoids these
// queries if the broker may read MariaDB's own tables and the database has no tables, and so no views or triggers. A
// MariaDB that can open no more files lists no tables at all, not even its own; then views and triggers are queried.
func (s *Session) defines(ctx context.Context, account, database string) (bool, error) {
	definer := account + "@%"
	if s.server.readsPrograms.Load() {
		var programs, tables, listed bool
		row := s.conn.QueryRowContext(ctx, s.dialect.defining+"SELECT "+definesProgramsMariaDB+
			", EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = ?)"+
			", EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = 'mysql')",
			database, definer, database, definer, database)
		if err := row.Scan(&programs, &tables, &listed); err != nil {
			s.failed = true
			return false, err
		}
		if programs || listed && !tables {
			return programs, nil
		}
		return s.exists(ctx, s.dialect.defining+"SELECT "+definesTables, database, definer, database, definer)
	}
	return s.exists(ctx, s.dialect.defining+"SELECT "+definesTables+" OR "+definesPrograms,
		database, definer, database, definer, database, definer, database, definer)
}

// readsPrograms reports whether the broker's account may read MariaDB's tables of routines and events.
func readsPrograms(ctx context.Context, conn *sql.Conn, flavour Flavour) (bool, error) {
	if flavour.Name != MariaDB {
		return false, nil
	}
	for _, table := range []string{"mysql.proc", "mysql.event"} {
		lacks, err := denied(ctx, conn, "SELECT db, definer FROM "+table+" LIMIT 0")
		if lacks || err != nil {
			return false, err
		}
	}
	return true, nil
}
