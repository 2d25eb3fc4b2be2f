package mysqladmin

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Size is what a database takes on disk, in bytes.
type Size struct {
	Files    int64 // its tables, indexes included, and its stored programs: see Sizes.Programs
	Reusable int64 // what deleted rows have left free in these files, which do not shrink
}

// Used is how much of a quota the database uses. Reusable bytes count as free, but at most as many as the quota has:
// otherwise tables that are filled and emptied one after the other would fill the disk.
func (s Size) Used(quota int64) int64 { return s.Files - min(s.Reusable, quota) }

// programLimit bounds how long a server reads the stored programs of one database.
const programLimit = 10 * time.Second

// Of measures a database, which may be missing. The size of tables in a shared InnoDB tablespace is an
// estimate of the server, which lags some seconds behind large changes. Deleted rows become free space some seconds
// later. Tables that a statement is just creating, and that have no InnoDB tablespace of their own, may not be counted.
// Free space in a shared tablespace counts for no database. If the server cannot open all tables in time, only the
// files of InnoDB count.
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-innodb-tablespaces-table.html
// https://dev.mysql.com/doc/refman/8.4/en/information-schema-tables-table.html
func (on Sizes) Of(ctx context.Context, name string) (Size, error) {
	tables, files, err := on.tablesOf(ctx, name)
	if err != nil && (!TimedOut(err) || files == 0) {
		return Size{}, on.s.explain("size of database "+name, err)
	}
	return on.withPrograms(ctx, name, sum(tables, files))
}

// OfFiles is Of for a database that has only tables with files of their own, which Files measured. Unlike Of, it does
// not have the server scan all tablespaces.
func (on Sizes) OfFiles(ctx context.Context, name string, files int64) (Size, error) {
	flavour, err := on.s.Flavour(ctx)
	if err != nil {
		return Size{}, err
	}
	size := Size{Files: files}
	const query = "SELECT COALESCE(SUM(DATA_FREE), 0) FROM information_schema.TABLES"
	err = on.eachTable(ctx, dialects[flavour.Name], query, name, func(rows *sql.Rows) error {
		var free int64
		err := rows.Scan(&free)
		size.Reusable += free
		return err
	})
	if err != nil {
		return Size{}, on.s.explain("free space of database "+name, err)
	}
	return on.withPrograms(ctx, name, size)
}

// withPrograms adds the stored programs to the size of a database's tables.
func (on Sizes) withPrograms(ctx context.Context, name string, size Size) (Size, error) {
	texts, err := on.ProgramsOf(ctx, name, programLimit)
	size.Files += texts
	return size, err
}

// sum adds up what tablesOf returns.
func sum(tables []tableSize, files int64) Size {
	size := Size{Files: files}
	for _, t := range tables {
		if t.hasFile() {
			size.Reusable += t.free
		} else {
			size.Files += t.lengths
		}
	}
	return size
}

// tableSize is what the server says about the size of a table.
type tableSize struct {
	name                string
	kind                string // TABLE_TYPE
	innoDB, partitioned bool
	lengths, free, rows int64  // estimates
	file                *int64 // the bytes of its own tablespaces, nil for none
}

// hasFile reports whether all of a table is in tablespaces of its own. Partitioned tables cannot be in a shared one.
func (t tableSize) hasFile() bool { return t.innoDB && (t.partitioned || t.file != nil) }

// tablesOf reads the tables of a database, and how many bytes its own InnoDB tablespaces have together, also those of
// tables that are just being made. It matches tables and tablespaces, which the servers can only do by comparing each
// with each. If the server does not open all tables in time, tablesOf still returns the bytes.
func (on Sizes) tablesOf(ctx context.Context, database string) (tables []tableSize, files int64, err error) {
	flavour, err := on.s.Flavour(ctx)
	if err != nil {
		return nil, 0, err
	}
	d := dialects[flavour.Name]
	byFile := map[string]int{} // the table of a file
	query := fmt.Sprintf(`SELECT TABLE_NAME, %s, TABLE_TYPE, COALESCE(ENGINE, '') = 'InnoDB',
		COALESCE(CREATE_OPTIONS, '') LIKE '%%partitioned%%', COALESCE(DATA_LENGTH + INDEX_LENGTH, 0), COALESCE(DATA_FREE, 0),
		COALESCE(TABLE_ROWS, 0) FROM information_schema.TABLES`, d.named("TABLE_NAME"))
	opening := on.eachTable(ctx, d, query, database, func(rows *sql.Rows) error {
		var t tableSize
		var file string
		err := rows.Scan(&t.name, &file, &t.kind, &t.innoDB, &t.partitioned, &t.lengths, &t.free, &t.rows)
		byFile[file] = len(tables)
		tables = append(tables, t)
		return err
	})
	if opening != nil && !TimedOut(opening) {
		return nil, 0, opening
	}
	// MariaDB lists the tablespaces of tables that were opened.
	query = fmt.Sprintf(`SELECT SUBSTRING(NAME, CHAR_LENGTH(SUBSTRING_INDEX(NAME, '/', 1)) + 2), FILE_SIZE FROM %s
		WHERE SUBSTRING_INDEX(NAME, '/', 1) = %s`, d.tablespaces, d.named("?"))
	err = on.eachRow(ctx, query, database, func(rows *sql.Rows) error {
		var file string
		var bytes int64
		err := rows.Scan(&file, &bytes)
		files += bytes
		at, found := byFile[file]
		if !found { // of a partition: t#p#p0 on MySQL and t#P#p0 on MariaDB
			at, found = byFile[partitionOf.ReplaceAllString(file, "")]
		}
		if found {
			t := &tables[at]
			if t.file == nil {
				t.file = new(int64)
			}
			*t.file += bytes
		}
		return err
	})
	return tables, files, cmp.Or(err, opening)
}

// openingTime bounds how long a server opens the tables of one database, and each query.
const openingTime = 30 * time.Second

var errOpeningTime = errors.New("the server does not open all tables in time")

// eachTable calls fn with the rows of a query of information_schema.TABLES, without views. MariaDB would open these,
// too, so one query reads a whole database there only if it has none. That takes a quarter of the time of TableQueries.
func (on Sizes) eachTable(ctx context.Context, d dialect, query, database string, fn func(*sql.Rows) error) error {
	var views []string
	if d.openingTables != "" {
		var err error
		if views, err = names(ctx, on.s.reads, d.openingTables+viewsOf, database); err != nil {
			return err
		}
	}
	if len(views) == 0 {
		return on.eachRow(ctx, d.openingTables+query+" WHERE TABLE_SCHEMA = ? AND TABLE_TYPE <> 'VIEW'", database, fn)
	}
	all, err := names(ctx, on.s.reads, d.openingTables+tablesOf, database)
	if err != nil {
		return err
	}
	began := time.Now()
	for _, some := range TableQueries(query, "?", all) {
		if time.Since(began) > openingTime {
			return errOpeningTime
		}
		if err := on.eachRow(ctx, d.openingTables+some, database, fn); err != nil {
			return err
		}
	}
	return nil
}

// tablesAtOnce is how many tables one query is about. MariaDB has a temporary table for each, and with hundreds needs
// more memory than a session may take.
const tablesAtOnce = 50

// TableQueries makes of a query of a view of information_schema queries about these tables of a database, which is an
// expression. MariaDB opens whatever a query may be about, and a view with all that it uses, for which a session may
// not have the memory. So it has to be asked for each table by its name: then it opens that table only.
// https://mariadb.com/docs/server/reference/system-tables/information-schema/optimizations-for-information_schema-tables
func TableQueries(query, database string, tables []string) (queries []string) {
	for some := range slices.Chunk(tables, tablesAtOnce) {
		each := make([]string, len(some))
		for n, table := range some {
			each[n] = fmt.Sprintf("%s WHERE table_schema = %s AND table_name = _utf8mb4 X'%x'", query, database, table)
		}
		queries = append(queries, strings.Join(each, " UNION ALL "))
	}
	return queries
}

var partitionOf = regexp.MustCompile(`(?s)#[pP]#.*$`)

// eachRow calls fn with the rows of a query whose arguments are all a database.
func (on Sizes) eachRow(ctx context.Context, query, database string, fn func(*sql.Rows) error) error {
	return EachRow(ctx, on.s.reads, query, fn, slices.Repeat([]any{database}, strings.Count(query, "?"))...)
}

// named is an expression that converts a name to its form in NAME of the tablespaces.
func (d dialect) named(expression string) string { return fmt.Sprintf(d.tablespaceName, expression) }

// Files measures all databases on a shared server whose names begin with DatabasePrefix, in one query. It counts the
// bytes on disk of InnoDB tables that have their own tablespace, as almost all have. A database without tables has 0.
// The cost grows with the number of tables, but the server opens none of them.
func (on Sizes) Files(ctx context.Context) (map[string]int64, error) {
	flavour, err := on.s.Flavour(ctx)
	if err != nil {
		return nil, err
	}
	databases, err := on.s.Databases(ctx)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	query := "SELECT NAME, FILE_SIZE FROM " + dialects[flavour.Name].tablespaces + " WHERE NAME LIKE ?"
	err = on.eachRow(ctx, query, escapePattern(DatabasePrefix)+"%", func(rows *sql.Rows) error {
		var file string
		var bytes int64
		err := rows.Scan(&file, &bytes)
		database, _, _ := strings.Cut(file, "/")
		sizes[database] += bytes
		return err
	})
	if err != nil {
		return nil, on.s.explain("measure the databases", err)
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

// OtherTables measures what Files leaves out: tables in shared tablespaces, and tables of other engines, which may date
// from before the servers refused them. Databases without such tables are absent from the result. Databases that cannot
// be measured within otherTablesTime are absent too, and are named in the error. The server opens only the tables of
// databases that have such tables.
func (on Sizes) OtherTables(ctx context.Context) (map[string]int64, error) {
	flavour, err := on.s.Flavour(ctx)
	if err != nil {
		return nil, err
	}
	d := dialects[flavour.Name]
	pattern := escapePattern(DatabasePrefix) + "%"
	databases, err := names(ctx, on.s.reads, d.openingTables+othersQuery+" UNION "+d.inSharedTablespaces, pattern, pattern)
	if err != nil {
		return nil, on.s.explain("find tables that have no file of InnoDB's", err)
	}
	sizes := map[string]int64{}
	var failed []error
	for _, name := range databases {
		bytes, err := on.otherTablesOf(ctx, name)
		if err != nil {
			failed = append(failed, on.s.explain("measure tables of database "+name+" that have no file of InnoDB's", err))
			continue
		}
		sizes[name] = bytes
	}
	return sizes, errors.Join(failed...)
}

// otherTablesTime bounds the query for one database, so that very many such tables in one do not keep the others from
// being measured.
const otherTablesTime = 3 * time.Second

func (on Sizes) otherTablesOf(ctx context.Context, database string) (bytes int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, otherTablesTime)
	defer cancel()
	tables, _, err := on.tablesOf(ctx, database)
	for _, t := range tables {
		if !t.hasFile() {
			bytes += t.lengths
		}
	}
	return bytes, err
}
