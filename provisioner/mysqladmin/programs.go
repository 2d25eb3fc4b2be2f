package mysqladmin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// storedText is where a server stores the texts of routines, events, triggers, views and so on, which are in no table's
// file.
type storedText struct {
	table, database, text string
	since                 [3]int // the version that has the table
}

// MariaDB's information_schema hides the texts of routines and events from the broker's account.
var storedTexts = map[string][]storedText{
	MySQL: {
		{table: "information_schema.ROUTINES", database: "ROUTINE_SCHEMA", text: "ROUTINE_DEFINITION"},
		{table: "information_schema.EVENTS", database: "EVENT_SCHEMA", text: "EVENT_DEFINITION"},
		{table: "information_schema.TRIGGERS", database: "TRIGGER_SCHEMA", text: "ACTION_STATEMENT"},
		{table: "information_schema.VIEWS", database: "TABLE_SCHEMA", text: "VIEW_DEFINITION"},
		{"information_schema.CHECK_CONSTRAINTS", "CONSTRAINT_SCHEMA", "CHECK_CLAUSE", [3]int{8, 0, 16}},
		{"information_schema.LIBRARIES", "LIBRARY_SCHEMA", "LIBRARY_DEFINITION", [3]int{9, 2, 0}},
	},
	MariaDB: {
		{table: "mysql.proc", database: "db", text: "body"},
		{table: "mysql.event", database: "db", text: "body"},
		{table: "information_schema.TRIGGERS", database: "TRIGGER_SCHEMA", text: "ACTION_STATEMENT"},
		{table: "information_schema.VIEWS", database: "TABLE_SCHEMA", text: "VIEW_DEFINITION"},
	},
}

// textCopies is how many copies of such a text a server stores: one in the character set that it was sent in, and one
// in that of the server's own tables.
const textCopies = 2

// programs is a query for the bytes of these texts by database. It takes the name of a database, or a pattern, once for
// each of the storedTexts.
func programs(flavour Flavour, comparison string, limit time.Duration) string {
	var parts []string
	for _, t := range storedTexts[flavour.Name] {
		if flavour.before(t.since[:]...) {
			continue
		}
		parts = append(parts, fmt.Sprintf("SELECT %s AS db, LENGTH(%s) AS bytes FROM %s WHERE %s %s ?", t.database, t.text,
			t.table, t.database, comparison))
	}
	query := fmt.Sprintf("SELECT /*+ MAX_EXECUTION_TIME(%d) */ db, CAST(%d * COALESCE(SUM(bytes), 0) AS SIGNED) "+
		"FROM (%s) AS texts GROUP BY db", limit.Milliseconds(), textCopies, strings.Join(parts, " UNION ALL "))
	if flavour.Name == MariaDB {
		query = fmt.Sprintf("SET STATEMENT max_statement_time = %f FOR ", limit.Seconds()) + query
	}
	return query
}

// Programs measures the bytes of the texts of routines, events, triggers, views and CHECK constraints in all databases
// on a shared server whose names begin with DatabasePrefix. Databases without any are absent. The server reads all
// texts for it, for no longer than limit.
func (on Sizes) Programs(ctx context.Context, limit time.Duration) (map[string]int64, error) {
	return on.programs(ctx, "LIKE", escapePattern(DatabasePrefix)+"%", limit)
}

// ProgramsOf measures the same in one database.
func (on Sizes) ProgramsOf(ctx context.Context, database string, limit time.Duration) (int64, error) {
	sizes, err := on.programs(ctx, "=", database, limit)
	return sizes[database], err
}

// TimedOut reports whether the server ended a statement because it exceeded the statement's time limit, or did not open
// all tables in time.
func TimedOut(err error) bool {
	return errors.Is(err, errOpeningTime) || hasNumber(err, errQueryTimeout) || hasNumber(err, errStatementTimeout)
}

func (on Sizes) programs(ctx context.Context, comparison, databases string,
	limit time.Duration) (map[string]int64, error) {
	flavour, err := on.s.Flavour(ctx)
	if err != nil {
		return nil, err
	}
	sizes, query := map[string]int64{}, programs(flavour, comparison, limit)
	args := slices.Repeat([]any{databases}, strings.Count(query, "?"))
	if err := readPairs(ctx, on.s.reads, sizes, query, args...); err != nil {
		return nil, on.s.explain("measure the stored programs", err)
	}
	return sizes, nil
}

// Statements that take a database and a definer twice, for kinds of objects.
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
// queries if the database has no tables, and so no views or triggers. A MariaDB that can open no more files lists no
// tables at all, not even its own; then views and triggers are queried.
func (on Accounts) defines(ctx context.Context, account, database string) (bool, error) {
	definer := account + "@%"
	var programs, tables, listed bool
	row := on.s.conn.QueryRowContext(ctx, on.s.dialect.defining+"SELECT "+on.s.dialect.definesPrograms+
		", EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = ?)"+
		", EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = 'mysql')",
		database, definer, database, definer, database)
	if err := row.Scan(&programs, &tables, &listed); err != nil {
		on.s.failed = true
		return false, err
	}
	if programs || listed && !tables {
		return programs, nil
	}
	return on.s.exists(ctx, on.s.dialect.defining+"SELECT "+definesTables, database, definer, database, definer)
}

// Statuses of events where they were created or altered last. Everywhere else they have another one, whichever of
// these two they have there.
const (
	eventEnabled  = "ENABLED"
	eventDisabled = "DISABLED"
)

// RunningEvents lists the events of a database that a node of the cluster runs: the one on which they were created or
// altered last. On all others they are disabled, also those that the application has not disabled. Both lists are nil
// on a server that is in no cluster. A node that cannot be reached is left out; unknown are the events that it may run,
// or that the application may have disabled there.
func (s *Server) RunningEvents(ctx context.Context, database string) (running, unknown []string, err error) {
	if s.nodes == nil {
		return nil, nil, nil
	}
	var errs []error
	all := map[string]string{}
	for _, one := range s.nodes.all {
		found, err := one.events(ctx, database)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for name, status := range found {
			if status == eventEnabled || all[name] != eventEnabled && all[name] != eventDisabled {
				all[name] = status
			}
		}
	}
	if len(errs) == len(s.nodes.all) {
		return nil, nil, s.explain("read which events run", errors.Join(errs...))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch {
		case all[name] == eventEnabled:
			running = append(running, name)
		case all[name] != eventDisabled && len(errs) > 0:
			unknown = append(unknown, name)
		}
	}
	return running, unknown, nil
}

// events returns the statuses of the events of a database on the node, by name.
func (n *node) events(ctx context.Context, database string) (statuses map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	statuses = map[string]string{}
	return statuses, readPairs(ctx, n.db, statuses,
		"SELECT event_name, status FROM information_schema.events WHERE event_schema = ?", database)
}
