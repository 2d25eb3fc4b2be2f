package mysqladmin

import (
	"context"
	"fmt"
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
		if flavour.before(t.since[0], t.since[1], t.since[2]) {
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

// ProgramSizes measures what the texts of routines, events, triggers, views and CHECK constraints take in all databases
// on a shared server whose names begin with DatabasePrefix. Databases without any are absent. The server reads all
// texts for it, for no longer than limit.
func (s *Server) ProgramSizes(ctx context.Context, limit time.Duration) (map[string]int64, error) {
	return s.programSizes(ctx, "LIKE", escapePattern(DatabasePrefix)+"%", limit)
}

// ProgramSize measures the same in one database.
func (s *Server) ProgramSize(ctx context.Context, database string, limit time.Duration) (int64, error) {
	sizes, err := s.programSizes(ctx, "=", database, limit)
	return sizes[database], err
}

// TimedOut reports whether the server ended a statement because it exceeded the statement's time limit.
func TimedOut(err error) bool {
	return hasNumber(err, errQueryTimeout) || hasNumber(err, errStatementTimeout)
}

func (s *Server) programSizes(ctx context.Context, comparison, databases string,
	limit time.Duration) (map[string]int64, error) {
	flavour, err := s.Flavour(ctx)
	if err != nil {
		return nil, err
	}
	query := programs(flavour, comparison, limit)
	args := make([]any, strings.Count(query, "?"))
	for n := range args {
		args[n] = databases
	}
	return s.sizesOf(ctx, query, args...)
}
