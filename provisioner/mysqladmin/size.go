package mysqladmin

import (
	"context"
	"fmt"
	"time"
)

// Size is what a database takes on disk, in bytes.
type Size struct {
	Files    int64 // its tables, indexes included, and its stored programs: see ProgramSizes
	Reusable int64 // what deleted rows have left free in these files, which do not shrink
}

// Used is how much of a quota the database uses. Reusable bytes count as free, but at most as many as the quota has:
// otherwise tables that are filled and emptied one after the other would fill the disk.
func (s Size) Used(quota int64) int64 { return s.Files - min(s.Reusable, quota) }

// sizeQuery takes a database, twice. Its second part reads only the free space of InnoDB tables that have their own
// tablespace: the first part has their size. Tables of other engines, and InnoDB tables in a shared tablespace, are
// counted by their lengths. Partitioned tables cannot be in a shared tablespace. Free space in a shared tablespace
// counts for no database.
const sizeQuery = `SELECT CAST(COALESCE(SUM(bytes), 0) AS SIGNED), CAST(COALESCE(SUM(free), 0) AS SIGNED) FROM (
	SELECT FILE_SIZE AS bytes, 0 AS free FROM %[1]s WHERE SUBSTRING_INDEX(NAME, '/', 1) = %[2]s
	UNION ALL
	SELECT IF(innodb AND own, 0, lengths), IF(innodb AND NOT own, 0, unused) FROM (
		SELECT ENGINE = 'InnoDB' AS innodb, DATA_LENGTH + INDEX_LENGTH AS lengths, DATA_FREE AS unused,
			CREATE_OPTIONS LIKE '%%partitioned%%' OR CONCAT(%[3]s, '/', %[4]s) IN (SELECT NAME FROM %[1]s) AS own
		FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND ENGINE IS NOT NULL) AS tables_of_it
	) AS files`

// programLimit bounds how long a server reads the stored programs of one database.
const programLimit = 10 * time.Second

// DatabaseSize measures a database, which may be missing. The size of tables in a shared InnoDB tablespace is an
// estimate of the server, which lags some seconds behind large changes. Deleted rows become free space some seconds
// later. Tables that a statement is just creating, and that have no InnoDB tablespace of their own, may not be counted.
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-innodb-tablespaces-table.html
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-tables-table.html
func (s *Server) DatabaseSize(ctx context.Context, name string) (size Size, err error) {
	flavour, err := s.Flavour(ctx)
	if err != nil {
		return size, err
	}
	err = s.reads.QueryRowContext(ctx, dialects[flavour.Name].size(), name, name).Scan(&size.Files, &size.Reusable)
	if err != nil {
		return size, s.explain("size of database "+name, err)
	}
	texts, err := s.ProgramSize(ctx, name, programLimit)
	size.Files += texts
	return size, err
}

func (d dialect) size() string {
	return d.openingTables + fmt.Sprintf(sizeQuery, d.tablespaces, d.named("?"), d.named("TABLE_SCHEMA"),
		d.named("TABLE_NAME"))
}

// named is an expression that converts a name to its form in NAME of the tablespaces.
func (d dialect) named(expression string) string { return fmt.Sprintf(d.tablespaceName, expression) }
