package mysqladmin

import (
	"context"
	"fmt"
)

// sizeQuery takes a database, twice. The tables that it adds to the tablespaces have none of their own: those of other
// engines, and of InnoDB those in a shared tablespace, where partitioned ones can't be.
const sizeQuery = `SELECT CAST(COALESCE(SUM(bytes), 0) AS SIGNED) FROM (
	SELECT FILE_SIZE AS bytes FROM %[1]s WHERE SUBSTRING_INDEX(NAME, '/', 1) = %[2]s
	UNION ALL
	SELECT DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES
		WHERE TABLE_SCHEMA = ? AND (ENGINE <> 'InnoDB' OR CREATE_OPTIONS NOT LIKE '%%partitioned%%'
			AND CONCAT(%[3]s, '/', %[4]s) NOT IN (SELECT NAME FROM %[1]s))
	) AS files`

// DatabaseSize is the bytes that the tables of a database, indexes included, take on disk just now; 0 where there is no
// such database. The files do not shrink when rows are deleted. What is in a shared InnoDB tablespace is an estimate of
// the server, which lags behind large changes by some seconds.
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-innodb-tablespaces-table.html
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-tables-table.html
func (s *Server) DatabaseSize(ctx context.Context, name string) (bytes int64, err error) {
	flavour, err := s.Flavour(ctx)
	if err != nil {
		return 0, err
	}
	err = s.reads.QueryRowContext(ctx, dialects[flavour.Name].size(), name, name).Scan(&bytes)
	return bytes, s.explain("size of database "+name, err)
}

func (d dialect) size() string {
	named := func(expression string) string { return fmt.Sprintf(d.tablespaceName, expression) }
	return fmt.Sprintf(sizeQuery, d.tablespaces, named("?"), named("TABLE_SCHEMA"), named("TABLE_NAME"))
}
