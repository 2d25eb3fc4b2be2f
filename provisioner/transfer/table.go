package transfer

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"mysql-broker/provisioner/mysqladmin"
)

// table is a table or a sequence of the source.
type table struct {
	Name      string   `json:"name"`
	Create    string   `json:"create"` // the statement that makes it
	Sequence  bool     `json:"sequence,omitempty"`
	Next      string   `json:"next,omitempty"`      // of a sequence: its next value
	Round     string   `json:"round,omitempty"`     // how often a sequence has begun again
	Versioned bool     `json:"versioned,omitempty"` // it keeps former rows, which are copied too
	Columns   []column `json:"columns"`
	Key       string   `json:"key,omitempty"` // the first column of a unique key, by which it is divided; "" for none
	Bytes     uint64   `json:"bytes"`         // an estimate

	keyIndex string
	rows     uint64         // an estimate
	file     string         // its name and its database's in the views of InnoDB
	created  string         // the time, in seconds: on MariaDB that of the last RENAME too
	identity string         // see identities
	byNumber bool           // the identity is InnoDB's number, not the time of creation
	counted  int            // the column with AUTO_INCREMENT that can be NULL, from 1 on; 0 for none
	prunes   bool           // it has partitions, and the key may be one by which servers choose among them
	session  *sessionValues // nil if nothing depends on the session that writes the rows
}

// listTables reads what tables there are. It opens no table on MySQL, and no view.
func listTables(ctx context.Context, conn *sql.Conn) (tables []table, views []string, err error) {
	var all []string
	mariaDB := false
	err = eachOf(ctx, conn, []string{`SELECT table_name, coalesce(table_type, '') = 'VIEW', 0 /*M! + 1 */
		FROM information_schema.tables WHERE table_schema = DATABASE()`}, func(rows *sql.Rows) error {
		var name string
		var isView bool
		err := rows.Scan(&name, &isView, &mariaDB)
		if isView {
			views = append(views, name)
		} else {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	err = eachOf(ctx, conn, queriesOf(`SELECT table_name, table_type, coalesce(engine, ''),
		coalesce(table_rows, 0), coalesce(data_length, 0), coalesce(create_time, ''),
		coalesce(/*M! CONCAT(CAST(CONVERT(table_schema USING filename) AS BINARY), '/',
			CAST(CONVERT(table_name USING filename) AS BINARY)), */ CONCAT(table_schema, '/', table_name))
		FROM information_schema.tables`, mariaDB, all), func(rows *sql.Rows) error {
		var t table
		var kind, engine string
		if err := rows.Scan(&t.Name, &kind, &engine, &t.rows, &t.Bytes, &t.created, &t.file); err != nil {
			return err
		}
		switch kind {
		case "VIEW":
			return nil
		case "SEQUENCE":
			t.Sequence = true
		case "SYSTEM VERSIONED":
			t.Versioned = true
		case "BASE TABLE":
		default:
			return refused(nil, "Table %s is of the kind %s, which cannot be copied.", t.Name, kind)
		}
		if engine == "" {
			return refused(nil, "The server cannot open %s, a table or a view. Mend or drop it, and try again.",
				t.Name)
		}
		if !strings.EqualFold(engine, "InnoDB") {
			return refused(nil, "Table %s has the storage engine %s, and such tables cannot be copied consistently "+
				"while they are used. Change the engine to InnoDB, and try again.", t.Name, engine)
		}
		tables = append(tables, t)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	// The server's order of names that are equal in its collation, such as a and A, can change from query to query.
	slices.SortFunc(tables, func(a, b table) int { return strings.Compare(a.Name, b.Name) })
	return tables, views, nil
}

// String is the table as a statement names it.
func (t table) String() string { return quoteName(t.Name) }

// describe reads the definition of a table of the database, whose lock the caller holds.
func (t *table) describe(ctx context.Context, conn *sql.Conn, database string) error {
	verb := "TABLE "
	if t.Sequence {
		verb = "SEQUENCE "
	}
	if err := conn.QueryRowContext(ctx, "SHOW CREATE "+verb+t.String()).Scan(new(string), &t.Create); err != nil {
		return err
	}
	// MariaDB prints the database of sequences that are defaults of columns, and of no other table.
	for _, function := range []string{"nextval(", "lastval(", "setval("} {
		t.Create = strings.ReplaceAll(t.Create, function+quoteName(database)+".", function)
	}
	t.Create = inUTF8(t.Create)
	if geometryLine.MatchString(t.Create) {
		if err := t.readReferenceSystems(ctx, conn); err != nil {
			return err
		}
	}
	if t.Sequence {
		return conn.QueryRowContext(ctx, "SELECT next_not_cached_value, cycle_count FROM "+t.String()).
			Scan(&t.Next, &t.Round)
	}
	return nil
}

// geometryLine matches the line of a column for geometries, and the end of its type.
var geometryLine = regexp.MustCompile("(?m)^  (`(?:[^`]|``)+`) (?:geometry(?:collection)?|" +
	`(?:multi)?(?:point|linestring|polygon))\b`)

// readReferenceSystems adds the spatial reference systems of columns, which SHOW CREATE prints only on MySQL.
// https://mariadb.com/docs/server/reference/system-tables/information-schema/information-schema-tables/information-schema-geometry_columns-table
func (t *table) readReferenceSystems(ctx context.Context, conn *sql.Conn) error {
	err := mysqladmin.EachRow(ctx, conn, `SELECT g_geometry_column, srid FROM information_schema.geometry_columns
		WHERE g_table_schema = DATABASE() AND g_table_name = ? AND srid <> 0`, func(rows *sql.Rows) error {
		var name, system string
		err := rows.Scan(&name, &system)
		t.Create = geometryLine.ReplaceAllStringFunc(t.Create, func(line string) string {
			if geometryLine.FindStringSubmatch(line)[1] == quoteName(name) {
				line += " REF_SYSTEM_ID=" + system
			}
			return line
		})
		return err
	}, t.Name)
	if number(err) == errUnknownTable {
		return nil
	}
	return err
}

// inUTF8 writes the strings of a definition in hexadecimal that are not UTF-8: on MariaDB, defaults of binary columns;
// on MySQL, strings of checks and generated columns that a session with another character set has created.
func inUTF8(create string) string {
	if utf8.ValidString(create) {
		return create
	}
	return masked.ReplaceAllStringFunc(create, func(text string) string {
		if text[0] != '\'' || utf8.ValidString(text) {
			return text
		}
		return fmt.Sprintf(" x'%x'", unescaped.Replace(text[1:len(text)-1]))
	})
}

// unescaped turns the content of a string in a definition into the bytes that it stands for.
var unescaped = strings.NewReplacer(`''`, "'", `\0`, "\x00", `\n`, "\n", `\r`, "\r", `\Z`, "\x1a", `\\`, `\`,
	`\'`, "'", `\"`, `"`)

// queriesOf makes of a query of a view of information_schema queries about tables of the database. Those of MariaDB are
// about these tables: see mysqladmin.TableQueries.
func queriesOf(query string, mariaDB bool, tables []string) []string {
	if mariaDB {
		return mysqladmin.TableQueries(query, "DATABASE()", tables)
	}
	return []string{query + " WHERE table_schema = DATABASE()"}
}

// eachOf calls fn with the rows of queries.
func eachOf(ctx context.Context, conn *sql.Conn, queries []string, fn func(*sql.Rows) error) error {
	for _, query := range queries {
		if err := mysqladmin.EachRow(ctx, conn, query, fn); err != nil {
			return err
		}
	}
	return nil
}

// readColumns reads the columns of all tables that have values: generated ones only if these are stored.
func readColumns(ctx context.Context, conn *sql.Conn, mariaDB bool, tables []table) error {
	names := make([]string, len(tables))
	for n, t := range tables {
		names[n] = t.Name
	}
	queries := queriesOf(`SELECT table_name, ordinal_position, column_name, data_type, coalesce(character_set_name, ''),
		is_nullable, coalesce(generation_expression, ''), extra, column_type FROM information_schema.columns`, mariaDB, names)
	for n := range queries {
		queries[n] += " ORDER BY table_name, ordinal_position"
	}
	err := eachOf(ctx, conn, queries, func(rows *sql.Rows) error {
		var of, nullable, generated, extra string
		var at int
		var c column
		if err := rows.Scan(&of, &at, &c.Name, &c.Kind, &c.Charset, &nullable, &generated, &extra, &c.full); err != nil {
			return err
		}
		c.Stored = generated != "" && strings.Contains(extra, "STORED")
		t := find(tables, of)
		if t != nil && strings.Contains(extra, "MASKING POLICY") {
			return refused(nil, "Table %s has a masking policy, so that the broker may read other values than those of the "+
				"column %s. Take the policy off the column, and try again.", of, c.Name)
		}
		if t != nil && generated != "" && strings.Contains(extra, "WITHOUT SYSTEM VERSIONING") {
			return refused(nil, "Table %s keeps no history of the generated column %s, which the server does not show in the "+
				"table's definition. Drop the column, add it again, and try again.", of, c.Name)
		}
		if t == nil || generated != "" && (!c.Stored || strings.HasPrefix(generated, "ROW ")) {
			return nil // virtual, or of the period of a versioned table
		}
		c.Numbered = c.Kind == "enum" || c.Kind == "set"
		if c.Charset == "binary" {
			c.Charset = ""
		}
		c.Nullable = nullable == "YES"
		t.Columns = append(t.Columns, c)
		if c.Nullable && strings.Contains(extra, "auto_increment") {
			t.counted = len(t.Columns)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for n := range tables {
		if t := &tables[n]; t.Versioned {
			if err := t.addPeriod(); err != nil {
				return err
			}
		}
	}
	return nil
}

// period finds the columns of the period, which may be named, in a definition.
var period = regexp.MustCompile("PERIOD FOR SYSTEM_TIME \\((`(?:[^`]|``)*`), (`(?:[^`]|``)*`)\\)")

// addPeriod adds the columns that say from when to when a row was valid.
// https://mariadb.com/kb/en/system-versioned-tables/
func (t *table) addPeriod() error {
	from, to := "row_start", "row_end"
	if named := period.FindStringSubmatch(t.Create); named != nil {
		from, to = unquoteName(named[1]), unquoteName(named[2])
		if regexp.MustCompile(regexp.QuoteMeta(named[1])+` bigint`).FindString(t.Create) != "" {
			return refused(nil, "Table %s has a history by transactions, which cannot be copied.", t.Name)
		}
	}
	t.Columns = append(t.Columns, column{Name: from, Kind: "timestamp"}, column{Name: to, Kind: "timestamp"})
	return nil
}

// endOfPresent is the end of the period of rows that are present, on servers of that version.
// https://mariadb.com/docs/release-notes/community-server/changelogs/changelogs-mariadb-11-5-series
func endOfPresent(version string) string {
	var major, minor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor) // missing numbers are 0
	if major > 11 || major == 11 && minor >= 5 {
		return "2106-02-07 06:28:15.999999"
	}
	return "2038-01-19 03:14:07.999999"
}

// readKeys chooses the key by which each table is divided: the primary key, or another unique key.
func readKeys(ctx context.Context, conn *sql.Conn, tables []table) error {
	return mysqladmin.EachRow(ctx, conn, `SELECT table_name, index_name, column_name FROM information_schema.statistics
		WHERE table_schema = DATABASE() AND non_unique = 0 AND seq_in_index = 1 AND sub_part IS NULL
			/*!80000 AND is_visible = 'YES' */ /*M!100600 AND ignored = 'NO' */ AND column_name IS NOT NULL
			ORDER BY table_name, index_name = 'PRIMARY' DESC, index_name`, func(rows *sql.Rows) error {
		var of, index, name string
		if err := rows.Scan(&of, &index, &name); err != nil {
			return err
		}
		t := find(tables, of)
		if t != nil && t.Key == "" && !t.Versioned && !t.Sequence && slices.ContainsFunc(t.Columns, func(c column) bool {
			return c.Name == name && !c.Stored && !c.Nullable && slices.Contains(ordered, c.Kind)
		}) {
			t.Key, t.keyIndex = name, index
		}
		return nil
	})
}

func find(tables []table, name string) *table {
	at, found := slices.BinarySearchFunc(tables, name, func(t table, name string) int {
		return strings.Compare(t.Name, name)
	})
	if !found {
		return nil
	}
	return &tables[at]
}

// from is the table in a query; that of a versioned one includes former rows.
func (t table) from() string {
	if t.Versioned {
		return t.String() + " FOR SYSTEM_TIME ALL"
	}
	return t.String()
}

// selectRows is the query for the rows of a chunk, and what more is to be selected.
func (t table) selectRows(k chunk, more string) string {
	expressions := make([]string, len(t.Columns))
	for n, c := range t.Columns {
		expressions[n] = c.expression()
	}
	if len(expressions) == 0 { // all columns are virtual
		expressions = []string{"1"}
	}
	return fmt.Sprintf("SELECT %s%s FROM %s%s", strings.Join(expressions, ","), more, t.from(), t.where(k))
}

// selectSum is the query for the number of rows in a chunk and their checksum. It is a sum, because equal rows would
// cancel each other out in a BIT_XOR.
func (t table) selectSum(k chunk) string {
	return fmt.Sprintf("SELECT CONCAT(COUNT(*),' ',COALESCE(SUM(CRC32(%s)),0)) FROM %s%s", t.rowText(), t.from(),
		t.where(k))
}

// rowText is an expression for all values of a row.
func (t table) rowText() string {
	var sums, nulls []string
	for _, c := range t.Columns {
		sums = append(sums, c.sum())
		if c.Nullable {
			nulls = append(nulls, "ISNULL("+quoteName(c.Name)+")")
		}
	}
	if len(nulls) > 0 {
		sums = append(sums, "CONCAT("+strings.Join(nulls, ",")+")")
	}
	if len(sums) == 0 {
		return "''"
	}
	return "CONCAT_WS('#'," + strings.Join(sums, ",") + ")"
}

// insert is the beginning of a statement that inserts rows.
func (t table) insert() string {
	var names []string
	for _, c := range t.Columns {
		if !c.Stored {
			names = append(names, quoteName(c.Name))
		}
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES ", t, strings.Join(names, ","))
}

// Lines of what SHOW CREATE TABLE prints, with strings and names masked: those of columns, and of columns for which it
// prints no DEFAULT NULL although they have it, or can have none.
var (
	columnLine = regexp.MustCompile(`(?m)^  (\x00\d+\x00) .*$`)
	hasDefault = regexp.MustCompile(` (?:DEFAULT|NOT NULL|AUTO_INCREMENT|GENERATED ALWAYS|` +
		`(?:tiny|medium|long)?(?:text|blob))\b`)
)

// withoutDefault lists the columns that can be NULL and have no default, quoted.
func (t *table) withoutDefault() (names []string) {
	create, texts := mask(t.Create)
	for _, found := range columnLine.FindAllStringSubmatch(create, -1) {
		if !hasDefault.MatchString(found[0]) {
			names = append(names, texts.restore(found[1]))
		}
	}
	return names
}

// autoIncrement matches the option that changes with each row, in the line of a definition that has the options.
var autoIncrement = regexp.MustCompile(`(?m)^(\) .*?ENGINE=InnoDB)( AUTO_INCREMENT=\d+)`)

// counter is the option with the next value for AUTO_INCREMENT; that of a table without any is 1.
func (t table) counter() string {
	if found := autoIncrement.FindStringSubmatch(t.Create); found != nil {
		return found[2]
	}
	return " AUTO_INCREMENT=1"
}

// charsetOfCollation matches a character set that the collation after it implies. MySQL prints it in SHOW CREATE TABLE
// only if the statement that created the table named the collation, as the output of SHOW CREATE TABLE does.
var charsetOfCollation = regexp.MustCompile(` CHARACTER SET \w+( COLLATE \w)`)

// sameDefinition compares what SHOW CREATE printed of two tables.
func sameDefinition(a, b string) bool { return normalized(a) == normalized(b) }

func normalized(create string) string {
	return charsetOfCollation.ReplaceAllString(autoIncrement.ReplaceAllString(create, "$1"), "$1")
}
