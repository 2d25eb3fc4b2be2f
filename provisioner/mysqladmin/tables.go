package mysqladmin

import (
	"cmp"
	"context"
	"slices"
)

// Table is a table of a database.
type Table struct {
	Name  string
	Bytes int64 // on disk, indexes included; an estimate for tables without a file of InnoDB's
	Rows  int64 // an estimate of the server
}

// LargestTables lists up to n tables of a database, the largest first, and says how many there are.
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-innodb-tablespaces-table.html
// https://mariadb.com/docs/server/reference/system-tables/information-schema/information-schema-tables/information-schema-innodb-tables/information-schema-innodb_sys_tablespaces-table
func (s *Server) LargestTables(ctx context.Context, database string, n int) (largest []Table, all int, err error) {
	tables, _, err := s.tablesOf(ctx, database)
	if err != nil {
		return nil, 0, s.explain("list the tables of database "+database, err)
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
	return largest[:min(n, len(largest))], len(largest), nil
}
