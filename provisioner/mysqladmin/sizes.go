package mysqladmin

import (
	"context"
	"fmt"
	"strings"
)

// DatabaseFiles measures the databases on a shared server that are named as the broker's are, all by one query: the
// bytes that InnoDB's tables with a tablespace of their own, as almost all are, take on disk just now. A database
// without tables has 0. Its cost grows with the number of tables, but no table is opened for it.
func (s *Server) DatabaseFiles(ctx context.Context) (map[string]int64, error) {
	flavour, err := s.Flavour(ctx)
	if err != nil {
		return nil, err
	}
	databases, err := s.Databases(ctx)
	if err != nil {
		return nil, err
	}
	sizes, err := s.sizes(ctx, fmt.Sprintf(`SELECT SUBSTRING_INDEX(NAME, '/', 1), CAST(SUM(FILE_SIZE) AS SIGNED)
		FROM %s WHERE NAME LIKE ? GROUP BY 1`, dialects[flavour.Name].tablespaces))
	if err != nil {
		return nil, err
	}
	for _, name := range databases {
		if _, filled := sizes[name]; strings.HasPrefix(name, DatabasePrefix) && !filled {
			sizes[name] = 0
		}
	}
	return sizes, nil
}

// othersQuery takes a pattern for databases. Its condition is the opposite of innodb AND own in sizeQuery. A table that
// the server cannot read has no lengths.
const othersQuery = `SELECT TABLE_SCHEMA, CAST(COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0) AS SIGNED)
	FROM information_schema.TABLES WHERE TABLE_SCHEMA LIKE ? AND (ENGINE <> 'InnoDB'
		OR CREATE_OPTIONS NOT LIKE '%%partitioned%%' AND CONCAT(%[2]s, '/', %[3]s) NOT IN (SELECT NAME FROM %[1]s))
	GROUP BY TABLE_SCHEMA`

// OtherTables measures what DatabaseFiles leaves out: tables of other engines, and those in shared tablespaces.
// Databases without such tables are absent. It costs MariaDB far more, which opens every table for it.
func (s *Server) OtherTables(ctx context.Context) (map[string]int64, error) {
	flavour, err := s.Flavour(ctx)
	if err != nil {
		return nil, err
	}
	d := dialects[flavour.Name]
	return s.sizes(ctx, d.openingTables+fmt.Sprintf(othersQuery, d.tablespaces, d.named("TABLE_SCHEMA"),
		d.named("TABLE_NAME")))
}

// sizes runs a query that takes a pattern for databases of the broker's and yields them with their bytes. Their names
// are the same in any character set.
func (s *Server) sizes(ctx context.Context, query string) (map[string]int64, error) {
	rows, err := s.reads.QueryContext(ctx, query, escapePattern(DatabasePrefix)+"%")
	if err != nil {
		return nil, s.explain("measure the databases", err)
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	sizes := map[string]int64{}
	for rows.Next() {
		var name string
		var bytes int64
		if err := rows.Scan(&name, &bytes); err != nil {
			return nil, s.explain("measure the databases", err)
		}
		sizes[name] = bytes
	}
	return sizes, s.explain("measure the databases", rows.Err())
}
