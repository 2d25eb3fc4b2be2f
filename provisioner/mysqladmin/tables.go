package mysqladmin

import (
	"context"
	"fmt"
)

// Table is a table of a database.
type Table struct {
	Name  string
	Bytes int64 // on disk, indexes included; an estimate for tables without a file of InnoDB's
	Rows  int64 // an estimate of the server
}

// tablesQuery takes a database, twice, and how many tables to list. The partitions of a table, t#p#p0 on MySQL and
// t#P#p0 on MariaDB, have a tablespace each.
const tablesQuery = `SELECT t.TABLE_NAME, CAST(COALESCE(f.bytes, t.DATA_LENGTH + t.INDEX_LENGTH, 0) AS SIGNED) AS bytes,
		COALESCE(t.TABLE_ROWS, 0), COUNT(*) OVER ()
	FROM information_schema.TABLES AS t LEFT JOIN (
		SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(NAME, '#p#', 1), '#P#', 1) AS name, SUM(FILE_SIZE) AS bytes FROM %[1]s
		WHERE SUBSTRING_INDEX(NAME, '/', 1) = %[2]s GROUP BY 1
	) AS f ON CAST(f.name AS BINARY) = CONCAT(%[3]s, '/', %[4]s)
	WHERE t.TABLE_SCHEMA = ? AND t.TABLE_TYPE = 'BASE TABLE'
	ORDER BY bytes DESC, t.TABLE_NAME LIMIT ?`

// LargestTables lists up to n tables of a database, the largest first, and says how many there are.
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-innodb-tablespaces-table.html
// https://mariadb.com/docs/server/reference/system-tables/information-schema/information-schema-tables/information-schema-innodb-tables/information-schema-innodb_sys_tablespaces-table
func (s *Server) LargestTables(ctx context.Context, database string, n int) (largest []Table, all int, err error) {
	flavour, err := s.Flavour(ctx)
	if err != nil {
		return nil, 0, err
	}
	largest, all, err = s.largestTables(ctx, dialects[flavour.Name].tables(), database, n)
	return largest, all, s.explain("list the tables of database "+database, err)
}

func (s *Server) largestTables(ctx context.Context, query, database string, n int) (largest []Table, all int,
	err error) {
	rows, err := s.reads.QueryContext(ctx, query, database, database, n)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var t Table
		if err := rows.Scan(&t.Name, &t.Bytes, &t.Rows, &all); err != nil {
			return nil, 0, err
		}
		largest = append(largest, t)
	}
	return largest, all, rows.Err()
}

func (d dialect) tables() string {
	named := func(expression string) string { return fmt.Sprintf(d.tablespaceName, expression) }
	return d.openingTables + fmt.Sprintf(tablesQuery, d.tablespaces, named("?"), named("t.TABLE_SCHEMA"),
		named("t.TABLE_NAME"))
}
