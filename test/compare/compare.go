// Package compare compares two databases by everything that their servers tell about them. It shares no code with the
// packages that copy databases, and reads through other queries: values by the binary protocol, generated columns too,
// information_schema whole, definitions in two character sets, and what a row of defaults becomes.
package compare

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Side is a database on a server. Both sides of a comparison have servers of the same version.
type Side struct {
	DB       *sql.DB // connections of an account that may do everything
	Database string
	Accounts []string // as in GRANT; their privileges are compared, in this order
}

// fact names what a server tells: an aspect of an object, "" for the database itself.
type fact struct{ object, aspect string }

// Facts are what a server tells about a database, as lines.
type Facts struct {
	lines  map[fact][]string
	broken []string // views that the server cannot open
	past   []string // events that run no more, and that servers drop
}

// Difference is one between two databases.
type Difference struct {
	Object, Aspect string
	Lacks, Has     string // the first line that the second database lacks, and the first that only it has
}

// String shows where the two lines begin to differ, with some of what is before.
func (d Difference) String() string {
	from := 0
	for from < min(len(d.Lacks), len(d.Has)) && d.Lacks[from] == d.Has[from] {
		from++
	}
	from = max(from-60, 0)
	return fmt.Sprintf("%s, %s: lacks %.500q, has %.500q", d.Object, d.Aspect, d.Lacks[from:], d.Has[from:])
}

// CountsLess reports whether all that differs is that the second database has a lower next value for AUTO_INCREMENT.
func (d Difference) CountsLess() bool {
	there, err := strconv.ParseUint(strings.TrimSpace(d.Lacks), 10, 64)
	here, errHere := strconv.ParseUint(strings.TrimSpace(d.Has), 10, 64)
	return d.Aspect == "AUTO_INCREMENT" && err == nil && errHere == nil && here < there
}

// Diff lists the differences of a copy from its source. The copy may lack views that the source's server cannot open,
// events that run no more, and the objects in leftOut.
func Diff(source, copied Facts, leftOut ...string) (all []Difference) {
	facts := slices.Collect(maps.Keys(source.lines))
	for f := range copied.lines {
		if _, both := source.lines[f]; !both {
			facts = append(facts, f)
		}
	}
	mayLack := slices.Concat(source.broken, source.past, leftOut)
	slices.SortFunc(facts, func(a, b fact) int {
		return strings.Compare(a.object+"\x00"+a.aspect, b.object+"\x00"+b.aspect)
	})
	for _, f := range facts {
		there, here := source.lines[f], copied.lines[f]
		if len(here) == 0 && slices.Contains(mayLack, f.object) {
			continue
		}
		if lacks, has := without(there, here), without(here, there); lacks != "" || has != "" {
			all = append(all, Difference{f.object, f.aspect, lacks, has})
		}
	}
	return all
}

// without returns the first of sorted lines that others, sorted too, have not, or not as often; "" if there is none.
func without(lines, others []string) string {
	for _, line := range lines {
		for len(others) > 0 && others[0] < line {
			others = others[1:]
		}
		if len(others) == 0 || others[0] != line {
			return line + " "
		}
		others = others[1:]
	}
	return ""
}

// Describe reads everything about a database. It creates a scratch database for a moment, and takes values of sequences
// that are defaults of columns, after it has read these.
func Describe(ctx context.Context, side Side) (Facts, error) {
	conn, err := side.DB.Conn(ctx)
	if err != nil {
		return Facts{}, err
	}
	defer func() { _ = conn.Close() }()
	d := &describer{conn: conn, side: side, facts: Facts{lines: map[fact][]string{}}}
	for _, statement := range []string{"USE " + quote(side.Database), session} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return Facts{}, err
		}
	}
	if err := conn.QueryRowContext(ctx, "SELECT VERSION() LIKE '%MariaDB%'").Scan(&d.mariaDB); err != nil {
		return Facts{}, err
	}
	for _, step := range []func(context.Context) error{
		d.readPrivileges, d.readDefinitions, d.readInformationSchema, d.readTables, d.readDefaults} {
		if err := step(ctx); err != nil {
			return Facts{}, err
		}
	}
	for _, lines := range d.facts.lines {
		slices.Sort(lines)
	}
	return d.facts, nil
}

// session has settings on which nothing that is read depends otherwise. MySQL's counters would be up to a day old.
const session = `SET SESSION character_set_results = NULL, time_zone = '+00:00', lc_time_names = 'en_US', sql_mode = '',
	foreign_key_checks = 0, sql_quote_show_create = 1, max_error_count = 0
	/*!80000 , information_schema_stats_expiry = 0 */ /*M! , innodb_strict_mode = 0 */`

// describer reads the facts of a database.
type describer struct {
	conn  *sql.Conn
	side  Side
	facts Facts

	tables  []table
	mariaDB bool
}

// note adds a line to a fact. The name of the database is not part of it.
func (d *describer) note(object, aspect, line string) {
	d.noteAsIs(object, aspect, strings.ReplaceAll(line, d.side.Database, "DATABASE"))
}

// noteAsIs adds a line to a fact, with the name of the database: a copy of a row has that of its source.
func (d *describer) noteAsIs(object, aspect, line string) {
	f := fact{object, aspect}
	d.facts.lines[f] = append(d.facts.lines[f], line)
}

// noteError adds that the server refuses to tell. The message may have what differs.
func (d *describer) noteError(object, aspect string, err error) error {
	if number(err) == 0 {
		return fmt.Errorf("%s, %s: %w", object, aspect, err)
	}
	d.note(object, aspect, fmt.Sprintf("error %d", number(err)))
	return nil
}

func (d *describer) readPrivileges(ctx context.Context) error {
	for n, account := range d.side.Accounts {
		err := d.each(ctx, "SHOW GRANTS FOR "+account, func(row []cell) {
			grant := row[0].text
			if strings.Contains(grant, "PASSWORD") { // MariaDB tells it with the first grant
				grant = grant[:strings.Index(grant, " IDENTIFIED")]
			}
			grant = strings.ReplaceAll(grant, strings.ReplaceAll(d.side.Database, "_", `\_`), "DATABASE")
			d.note("", fmt.Sprintf("privileges of account %d", n+1), strings.Replace(grant, " TO "+account, "", 1))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// What information_schema tells that is no part of a database's contents: identities, times, sizes and estimates; who
// defines something; privileges, which readPrivileges reads; and statistics, which copies lack. Lengths and precisions
// follow from COLUMN_TYPE, except for some that CREATE TABLE … SELECT made up. A view keeps the text of whoever created it, and a
// default of a TIMESTAMP on MySQL is as it was in the zone of the session; SHOW CREATE prints what they mean. MySQL's
// AUTO_INCREMENT is one less while a table is not open. Expressions of partitions are quoted as the session had it, on
// MySQL those of generated columns name its character set, and those of keys have names in its letters (SHOW CREATE has
// all as they are read). MATCH has no effect, and a key that a foreign key refers to may be either of two equal ones.
// MariaDB lists options that it does not know, too.
var (
	incidental = regexp.MustCompile(`^(?:TABLE_ROWS|AVG_ROW_LENGTH|CHARACTER_\w+_LENGTH|\w+_PRECISION|NUMERIC_SCALE|COLUMN_DEFAULT|(?:GENERATION_|(?:SUB)?PARTITION_)?EXPRESSION|AUTO_INCREMENT|VIEW_DEFINITION|(?:MAX_)?(?:DATA|INDEX)_LENGTH|DATA_FREE|CARDINALITY|` +
		`(?:CREATE|UPDATE|CHECK)_TIME|CREATED|LAST_(?:ALTERED|EXECUTED)|MATCH_OPTION|UNIQUE_CONSTRAINT_NAME|DEFINER|CREATOR|ORIGINATOR|VERSION)$`)
	noContents = regexp.MustCompile(`PRIVILEGES$|^ROLE_|STATISTICS$|^METADATA_LOCK_INFO$|^APPLICABLE_ROLES$`)
	objectName = []string{"VIEW_NAME", "TABLE_NAME", "TRIGGER_NAME", "EVENT_NAME", "ROUTINE_NAME", "SPECIFIC_NAME",
		"LIBRARY_NAME", "SEQUENCE_NAME", "CONSTRAINT_NAME"}
)

func (d *describer) readInformationSchema(ctx context.Context) error {
	schemas := map[string]string{} // by view, the first column that names a database
	err := d.each(ctx, `SELECT UPPER(table_name), UPPER(column_name) FROM information_schema.columns WHERE table_schema =
		'information_schema' AND column_name LIKE '%\\_SCHEMA' ORDER BY ordinal_position DESC`, func(row []cell) {
		schemas[row[0].text] = row[1].text
	})
	if err != nil {
		return err
	}
	for view, schema := range schemas {
		if noContents.MatchString(view) && view != "STATISTICS" {
			continue
		}
		columns := "*"
		if view == "VIEW_ROUTINE_USAGE" {
			columns = "DISTINCT *" // MySQL repeats a row for each routine of that name in other databases
		}
		query := "SELECT " + columns + " FROM information_schema." + view + " WHERE " + schema + " = " + d.literal()
		if err := d.each(ctx, query, func(row []cell) { d.noteRow(view, row) }); err != nil {
			if err := d.noteError("", view, err); err != nil {
				return err
			}
		}
	}
	return d.each(ctx, `SELECT event_name FROM information_schema.events WHERE event_schema = `+d.literal()+
		` AND status = 'ENABLED' AND on_completion = 'NOT PRESERVE'
		AND CONVERT_TZ(COALESCE(execute_at, ends), time_zone, '+00:00') < NOW()`, func(row []cell) {
		d.facts.past = append(d.facts.past, row[0].text)
	})
}

// hiddenIndex is an index that InnoDB adds to a table with a FULLTEXT index, and keeps without one. One that a user has
// declared is in STATISTICS, too.
const hiddenIndex = "FTS_DOC_ID_INDEX"

// ofSequence matches the columns of a sequence that have comments of the server, unless CREATE TABLE has made it. Those
// of a table are in its definition.
var ofSequence = regexp.MustCompile(`COLUMN_NAME="(?:start_value|increment|cycle_option|cycle_count)"`)

// endName matches the end of a routine with the mode ORACLE: MariaDB stores the text without that name, and prints it so,
// but lists it with.
var endName = regexp.MustCompile(`(?i)\bEND\s+\S+$`)

// loaded says whether a secondary engine has loaded a table.
var loaded = regexp.MustCompile(` ?SECONDARY_LOAD="\d"`)

func (d *describer) noteRow(view string, row []cell) {
	object, line := "", ""
	for _, name := range objectName {
		at := slices.IndexFunc(row, func(c cell) bool { return strings.EqualFold(c.column, name) && !c.null })
		if at >= 0 {
			object = row[at].text
			break
		}
	}
	if view == "TABLE_CONSTRAINTS_EXTENSIONS" && slices.ContainsFunc(row, func(c cell) bool { return c.text == hiddenIndex }) {
		return
	}
	for _, c := range row {
		column := strings.ToUpper(c.column)
		if d.mariaDB && (column == "CREATE_OPTIONS" || column == "COLUMN_COMMENT" && ofSequence.MatchString(line)) {
			continue
		}
		if t := d.table(object); !d.mariaDB && t != nil && t.kind == "VIEW" && column == "IS_NULLABLE" {
			continue // a view knows nothing of a primary key that its table got later
		}
		if d.mariaDB && column == "ROUTINE_DEFINITION" {
			c.text = endName.ReplaceAllString(c.text, "END")
		}
		if column == "CREATE_OPTIONS" {
			c.text = loaded.ReplaceAllString(c.text, "")
		}
		if !incidental.MatchString(column) {
			line += column + "=" + c.String() + " "
		}
	}
	d.note(object, "information_schema."+view, line)
}

// programs are the queries for kinds and names of what SHOW CREATE prints, beside tables.
var programs = []string{
	"SELECT routine_type, routine_name FROM information_schema.routines WHERE routine_schema = %s",
	"SELECT 'TRIGGER', trigger_name FROM information_schema.triggers WHERE trigger_schema = %s",
	"SELECT 'EVENT', event_name FROM information_schema.events WHERE event_schema = %s",
	"SELECT 'LIBRARY', library_name FROM information_schema.libraries WHERE library_schema = %s",
}

const errUnknownTable = 1109

func (d *describer) readDefinitions(ctx context.Context) error {
	objects := [][2]string{{"DATABASE", d.side.Database}}
	add := func(row []cell) { objects = append(objects, [2]string{row[0].text, row[1].text}) }
	if err := d.each(ctx, "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = "+
		d.literal(), func(row []cell) {
		d.tables = append(d.tables, table{name: row[0].text, kind: row[1].text})
	}); err != nil {
		return err
	}
	for n := range d.tables {
		t := &d.tables[n]
		if t.kind == "VIEW" && d.each(ctx, "SHOW COLUMNS FROM "+quote(t.name), func([]cell) {}) != nil {
			d.facts.broken = append(d.facts.broken, t.name) // a MariaDB server may end if it is asked for the text
			continue
		}
		kind := "TABLE"
		if t.kind == "SEQUENCE" {
			kind = t.kind
		}
		objects = append(objects, [2]string{kind, t.name})
	}
	for _, query := range programs {
		if err := d.each(ctx, fmt.Sprintf(query, d.literal()), add); err != nil && number(err) != errUnknownTable {
			return err
		}
	}
	for _, charset := range []string{"latin1", "NULL"} {
		if _, err := d.conn.ExecContext(ctx, "SET SESSION character_set_results = "+charset); err != nil {
			return err
		}
		for _, o := range objects {
			name, aspect := o[1], "SHOW CREATE "+o[0]+" in "+charset
			if o[0] == "DATABASE" {
				name = ""
			}
			err := d.each(ctx, "SHOW CREATE "+o[0]+" "+quote(o[1]), func(row []cell) {
				for _, c := range row {
					if c.column != "Created" {
						d.noteDefinition(name, aspect, c.column+"="+c.text)
					}
				}
			})
			if err != nil {
				if err := d.noteError(name, aspect, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

var (
	definer   = regexp.MustCompile(`DEFINER=\S+ `) // in latin1, the quotes of a program in swe7 are letters
	counter   = regexp.MustCompile(`(?m)^(\) .*?) AUTO_INCREMENT=(\d+)`)
	incident  = regexp.MustCompile(` (?:CHARACTER SET|COLLATE) \w+| DEFAULT NULL`)
	ofMariaDB = regexp.MustCompile(`(?s) /\* .*? \*/`) // a */ in an option is *\/
)

// noteDefinition leaves out of a definition who defines it. Of a table, it leaves out the counter, which noteCounter
// notes, and the character sets of columns, which MySQL prints if the statement that created the table has named them:
// information_schema has them. It leaves out the default NULL, which only columns that CREATE TABLE … SELECT made lack,
// and on MariaDB options that the server did not know.
func (d *describer) noteDefinition(name, aspect, definition string) {
	definition = definer.ReplaceAllString(definition, "")
	if t := d.table(name); t != nil && strings.HasPrefix(aspect, "SHOW CREATE TABLE") {
		if found := counter.FindStringSubmatch(definition); found != nil {
			t.counter, _ = strconv.ParseUint(found[2], 10, 64) // digits, which fit
		}
		definition = incident.ReplaceAllString(counter.ReplaceAllString(definition, "$1"), "")
		if d.mariaDB {
			definition = ofMariaDB.ReplaceAllString(definition, "")
		}
	}
	d.note(name, aspect, sortKeys(definition))
}

// keys matches the lines of keys in a definition. Servers order them when they create a table, but not when they alter it.
var keys = regexp.MustCompile(`(?m)(?:^  (?:UNIQUE |FULLTEXT |SPATIAL )?KEY .*\n)+`)

func sortKeys(definition string) string {
	return keys.ReplaceAllStringFunc(definition, func(lines string) string {
		all := strings.Split(strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), ",\n", "\n"), "\n")
		slices.Sort(all)
		return strings.Join(all, "\n") + "\n"
	})
}
