package mysqladmin

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// Table is a table of a database.
type Table struct {
	Name  string
	Bytes int64 // on disk, indexes included; an estimate for tables without a file of InnoDB's
	Rows  int64 // an estimate of the server
}

// LargestTables measures a database and lists up to n of its tables, the largest first, and says how many there are.
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-innodb-tablespaces-table.html
// https://mariadb.com/docs/server/reference/system-tables/information-schema/information-schema-tables/information-schema-innodb-tables/information-schema-innodb_sys_tablespaces-table
func (on Sizes) LargestTables(ctx context.Context, database string, n int) (size Size, largest []Table, all int,
	err error) {
	tables, files, err := on.tablesOf(ctx, database)
	if err != nil {
		return size, nil, 0, on.s.explain("list the tables of database "+database, err)
	}
	if size, err = on.withPrograms(ctx, database, sum(tables, files)); err != nil {
		return size, nil, 0, err
	}
	for _, t := range tables {
		if t.kind == "BASE TABLE" {
			bytes := t.lengths
			if t.file != nil {
				bytes = *t.file
			}
			largest = append(largest, Table{t.name, bytes, t.rows})
		}
	}
	slices.SortFunc(largest, func(a, b Table) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return size, largest[:min(n, len(largest))], len(largest), nil
}

// MariaDB opens none of them.
const (
	tablesOf = `SELECT table_name FROM information_schema.tables
		WHERE table_schema = ? AND table_type NOT LIKE '%VIEW' ORDER BY table_name`
	viewsOf = "SELECT table_name FROM information_schema.tables WHERE table_schema = ? AND table_type LIKE '%VIEW'"
)

// Tables lists the tables and sequences of a database.
func (on Databases) Tables(ctx context.Context, database string) ([]string, error) {
	all, err := names(ctx, on.s.conn, tablesOf, database)
	return all, on.s.fail("list the tables of database "+database, err)
}

// TableMove says that a table is to come from one database into another.
type TableMove struct{ Table, From, To string }

// MoveTables moves tables, which have no triggers, with one statement. That waits for every open transaction that has
// used one of them. If it waits too long, MoveTables kills the sessions that use the database or may use it, and tries
// again.
func (on Databases) MoveTables(ctx context.Context, database string, moves []TableMove) error {
	if len(moves) == 0 {
		return nil
	}
	clauses := make([]string, len(moves))
	for n, m := range moves {
		table := "." + quoteIdentifier(m.Table)
		clauses[n] = quoteIdentifier(m.From) + table + " TO " + quoteIdentifier(m.To) + table
	}
	err := on.execAlone(ctx, database, "RENAME TABLE "+strings.Join(clauses, ", "))
	return explain("move tables of database "+database, err)
}
