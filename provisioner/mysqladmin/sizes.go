package mysqladmin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// DatabaseFiles measures all databases on a shared server whose names begin with DatabasePrefix, in one query. It
// counts the bytes on disk of InnoDB tables that have their own tablespace, as almost all have. A database without
// tables has 0. The cost grows with the number of tables, but the server opens none of them.
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

// othersQuery takes a pattern for databases, and lists those that have tables of engines other than InnoDB. It needs
// only the definitions of tables, so MariaDB opens none.
const othersQuery = `SELECT TABLE_SCHEMA FROM information_schema.TABLES
	WHERE TABLE_SCHEMA LIKE ? AND ENGINE <> 'InnoDB'`

// See dialect.inSharedTablespaces. MySQL's INNODB_TABLES would wait for tables that are being created.
const (
	sharedOnMySQL = `SELECT TABLE_SCHEMA FROM information_schema.TABLES WHERE TABLE_SCHEMA LIKE ?
		AND ENGINE = 'InnoDB' AND CREATE_OPTIONS NOT LIKE '%partitioned%' AND NOT EXISTS (SELECT 1 FROM
		information_schema.INNODB_TABLESPACES_BRIEF WHERE NAME = CONCAT(TABLE_SCHEMA, '/', TABLE_NAME))` // which has an index
	sharedOnMariaDB = `SELECT SUBSTRING_INDEX(NAME, '/', 1) FROM information_schema.INNODB_SYS_TABLES
		WHERE NAME LIKE ? AND SPACE_TYPE <> 'Single'`
)

// OtherTables measures what DatabaseFiles leaves out: tables in shared tablespaces, and tables of other engines, which
// may date from before the servers refused them. Databases without such tables are absent from the result. Databases
// that cannot be measured within otherTablesTime are absent too, and are named in the error. The server opens only the
// tables of databases that have such tables.
func (s *Server) OtherTables(ctx context.Context) (map[string]int64, error) {
	flavour, err := s.Flavour(ctx)
	if err != nil {
		return nil, err
	}
	d := dialects[flavour.Name]
	databases, err := s.databasesWithOthers(ctx, d)
	if err != nil {
		return nil, s.explain("look for tables that have no file of InnoDB's", err)
	}
	sizes := map[string]int64{}
	var failed []error
	for _, name := range databases {
		bytes, err := s.otherTablesOf(ctx, name)
		if err != nil {
			failed = append(failed, s.explain("measure tables of database "+name+" that have no file of InnoDB's", err))
			continue
		}
		sizes[name] = bytes
	}
	return sizes, errors.Join(failed...)
}

// otherTablesTime bounds the query for one database, so that very many such tables in one do not keep the others from
// being measured.
const otherTablesTime = 3 * time.Second

func (s *Server) otherTablesOf(ctx context.Context, database string) (bytes int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, otherTablesTime)
	defer cancel()
	tables, _, err := s.tablesOf(ctx, database)
	for _, t := range tables {
		if !t.hasFile() {
			bytes += t.lengths
		}
	}
	return bytes, err
}

func (s *Server) databasesWithOthers(ctx context.Context, d dialect) ([]string, error) {
	pattern := escapePattern(DatabasePrefix) + "%"
	return names(ctx, s.reads, d.openingTables+othersQuery+" UNION "+d.inSharedTablespaces, pattern, pattern)
}

// sizes runs a query that takes a pattern for the broker's databases and returns their bytes by name. The names are the
// same in every character set.
func (s *Server) sizes(ctx context.Context, query string) (map[string]int64, error) {
	return s.sizesOf(ctx, query, escapePattern(DatabasePrefix)+"%")
}

func (s *Server) sizesOf(ctx context.Context, query string, args ...any) (map[string]int64, error) {
	rows, err := s.reads.QueryContext(ctx, query, args...)
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
