package transfer

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"mysql-broker/provisioner/mysqladmin"
)

// program is a view, routine, trigger or event.
type program struct {
	Kind string `json:"kind"` // as SHOW CREATE and DROP name it
	Name string `json:"name"`
	Text []byte `json:"text"` // in the character set in which it was created

	// Settings of the session that created it.
	SQLMode    string `json:"sql_mode"`
	Client     string `json:"character_set_client"`
	Connection string `json:"collation_connection"`
	Database   string `json:"collation_database"`
	TimeZone   string `json:"time_zone,omitempty"`

	// Parameters are the collations of the parameters, which MySQL keeps and does not print.
	Parameters []string `json:"parameters,omitempty"`

	// Broken says why the source's server cannot open a view, or show its text; that is then unknown.
	Broken string `json:"broken,omitempty"`

	before time.Time // a disabled event has to be created before this time, in its time zone; the zero time for any
}

func (p program) String() string { return strings.ToLower(p.Kind) + " " + p.Name }

// programSet is those of a database, each list in the order in which they are created.
type programSet struct {
	Views     []program `json:"views"`
	Libraries []program `json:"libraries,omitempty"`
	Routines  []program `json:"routines"`
	Triggers  []program `json:"triggers"`
	Events    []program `json:"events"`

	Source    string `json:"database,omitempty"` // the database of the programs; "" if an old backup does not have it
	Collation string `json:"collation"`          // the default of the database, which implies its character set
	Comment   string `json:"comment,omitempty"`  // the clause for the database's comment, which MariaDB has since 10.5
}

// listPrograms are the queries for the kinds and names of programs. Triggers of the same event run in the order in
// which they were created.
var listPrograms = []struct {
	into  func(*programSet) *[]program
	query string
}{
	{func(p *programSet) *[]program { return &p.Views },
		"SELECT 'VIEW', table_name FROM information_schema.views WHERE table_schema = DATABASE() ORDER BY 2"},
	{func(p *programSet) *[]program { return &p.Libraries },
		"SELECT 'LIBRARY', library_name FROM information_schema.libraries WHERE library_schema = DATABASE() ORDER BY 2"},
	{func(p *programSet) *[]program { return &p.Routines },
		"SELECT routine_type, routine_name FROM information_schema.routines WHERE routine_schema = DATABASE() ORDER BY 1, 2"},
	{func(p *programSet) *[]program { return &p.Triggers },
		`SELECT 'TRIGGER', trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()
			ORDER BY event_object_table, action_timing, event_manipulation, action_order`},
	{func(p *programSet) *[]program { return &p.Events },
		"SELECT 'EVENT', event_name FROM information_schema.events WHERE event_schema = DATABASE() ORDER BY 2"},
}

// knownViews are those of information_schema that list what tables, programs and privileges have, which are copied or
// belong to accounts.
var knownViews = strings.Fields(`APPLICABLE_ROLES CHECK_CONSTRAINTS COLUMNS COLUMNS_EXTENSIONS COLUMN_PRIVILEGES
	COLUMN_STATISTICS EVENTS FILES GEOMETRY_COLUMNS INDEX_STATISTICS JSON_DUALITY_VIEWS JSON_DUALITY_VIEW_COLUMNS
	JSON_DUALITY_VIEW_LINKS JSON_DUALITY_VIEW_TABLES KEY_COLUMN_USAGE KEY_PERIOD_USAGE LIBRARIES METADATA_LOCK_INFO
	PARAMETERS PARTITIONS PERIODS REFERENTIAL_CONSTRAINTS ROLE_COLUMN_GRANTS ROLE_ROUTINE_GRANTS ROLE_TABLE_GRANTS ROUTINES
	ROUTINE_LIBRARIES SCHEMA_PRIVILEGES SEQUENCES STATISTICS ST_GEOMETRY_COLUMNS TABLES TABLES_EXTENSIONS TABLE_CONSTRAINTS
	TABLE_CONSTRAINTS_EXTENSIONS TABLE_PRIVILEGES TABLE_STATISTICS TRIGGERS VIEWS VIEW_ROUTINE_USAGE VIEW_TABLE_USAGE`)

// checkKinds refuses a database in which the server lists objects of a kind that this release does not know.
func checkKinds(ctx context.Context, conn *sql.Conn, known []string) error {
	unknown := map[string]string{}
	if err := mysqladmin.EachRow(ctx, conn, `SELECT UPPER(table_name), MIN(column_name) FROM information_schema.columns
		WHERE table_schema = 'information_schema' AND column_name LIKE '%\\_SCHEMA' GROUP BY 1`, func(rows *sql.Rows) error {
		var view, column string
		err := rows.Scan(&view, &column)
		if !slices.Contains(known, view) {
			unknown[view] = column
		}
		return err
	}); err != nil {
		return ofSource(err)
	}
	for view, column := range unknown {
		var lists bool
		err := conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM information_schema."+view+" WHERE "+quoteName(column)+
			" = DATABASE())").Scan(&lists)
		if lists {
			return refused(nil, "The database has objects that the server lists in information_schema.%s. This release of the "+
				"broker does not know how to copy them. Drop them, and try again.", view)
		}
		if err != nil && number(err) != errMissingPrivilege { // it is of the operator, then
			return ofSource(err)
		}
	}
	return nil
}

// databaseComment finds the clause in what SHOW CREATE DATABASE prints.
var databaseComment = regexp.MustCompile(`(?s) COMMENT '(?:[^'\\]|\\.|\'\')*'$`)

// defaultsOf reads the default collation and the comment of a database.
func defaultsOf(ctx context.Context, conn *sql.Conn, database string) (collation, comment string, err error) {
	if err := conn.QueryRowContext(ctx, "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA "+
		"WHERE SCHEMA_NAME = ?", database).Scan(&collation); err != nil {
		return "", "", err
	}
	var create string
	err = conn.QueryRowContext(ctx, "SHOW CREATE DATABASE "+quoteName(database)).Scan(new(string), &create)
	return collation, databaseComment.FindString(create), err
}

// names lists the kinds and names of programs.
func names(ctx context.Context, conn *sql.Conn, query string) (list []program, err error) {
	err = mysqladmin.EachRow(ctx, conn, query, func(rows *sql.Rows) error {
		var p program
		err := rows.Scan(&p.Kind, &p.Name)
		list = append(list, p)
		return err
	})
	if number(err) == errUnknownTable { // before 9.2, MySQL has no libraries, and no MariaDB has
		return nil, nil
	}
	return list, err
}

// readPrograms reads all programs of the source. SHOW CREATE executes none of them.
func readPrograms(ctx context.Context, from Source, o Options, size *defined) (all programSet, err error) {
	conn, err := open(ctx, from.Programs, readSession)
	if err != nil {
		return all, ofSource(err)
	}
	defer discard(conn)
	all.Source = from.Database
	if all.Collation, all.Comment, err = defaultsOf(ctx, conn, from.Database); err != nil {
		return all, ofSource(err)
	}
	if err := checkKinds(ctx, conn, knownViews); err != nil {
		return all, err
	}
	parameters, err := readParameters(ctx, conn, "TRUE")
	if err != nil {
		return all, ofSource(err)
	}
	for _, l := range listPrograms {
		list, err := names(ctx, conn, l.query)
		if err != nil {
			return all, ofSource(err)
		}
		for n := range list {
			if err := from.ask(ctx, list[n].String(), func() error { return list[n].open(ctx, conn) }); err != nil {
				return all, sourceFailure(err)
			}
			if list[n].Broken != "" {
				continue
			}
			if err := from.ask(ctx, list[n].String(), func() error { return list[n].read(ctx, conn) }); err != nil {
				return all, unreadable(list[n], err)
			}
			if err := size.add(len(list[n].Text), o); err != nil {
				return all, err
			}
			if err := list[n].compareStrings(ctx, conn); err != nil {
				return all, sourceFailure(err)
			}
			list[n].Parameters = parameters[list[n].String()]
			list[n].leaveOwnNames(from.Database)
			if err := list[n].rewriteHead(ctx, conn); err != nil {
				return all, sourceFailure(err)
			}
			if p := &list[n]; p.Kind == "EVENT" && slices.Contains(from.Running, p.Name) {
				p.Text = stoppedEvent.ReplaceAll(p.Text, []byte("${1}ENABLE"))
			}
		}
		*l.into(&all) = list
	}
	return all, nil
}

// open finds out whether the server can open a view. One that it cannot open is as broken in the source as it would be
// in the copy. It is not asked for the text: MariaDB ends if a table is missing to which a view applies JSON_TABLE.
func (p *program) open(ctx context.Context, conn *sql.Conn) error {
	if p.Kind != "VIEW" {
		return nil
	}
	rows, err := conn.QueryContext(ctx, "SHOW COLUMNS FROM "+quoteName(p.Name))
	if err == nil {
		err = rows.Close()
	}
	if number(err) == 0 || passes(err) {
		return err
	}
	p.Broken = err.Error()
	return nil
}

// unreadable refuses a view whose stored text the server does not understand.
func unreadable(p program, err error) error {
	if p.Kind != "VIEW" || number(err) == 0 || number(err) == errNoSuchTable || passes(err) {
		return sourceFailure(err)
	}
	return refused(err, "The server cannot read the text of the %s (MySQL error %d). Drop it, or create it again, and "+
		"try again.", p, number(err))
}

// read reads how a program was created. A text that the account may not read is nil.
func (p *program) read(ctx context.Context, conn *sql.Conn) error {
	rows, err := conn.QueryContext(ctx, "SHOW CREATE "+p.Kind+" "+quoteName(p.Name))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
	for n := range values {
		into[n] = &values[n]
	}
	if !rows.Next() {
		return cmp.Or(rows.Err(), fmt.Errorf("the server does not show the %s", p))
	}
	if err := rows.Scan(into...); err != nil {
		return err
	}
	for n, column := range columns {
		value := values[n]
		switch strings.ToLower(column) {
		case "sql_mode":
			p.SQLMode = string(value)
		case "character_set_client":
			p.Client = string(value)
		case "collation_connection":
			p.Connection = string(value)
		case "database collation":
			p.Database = string(value)
		case "time_zone":
			p.TimeZone = string(value)
		case "sql original statement", "create view", "create procedure", "create function", "create event",
			"create package", "create package body", "create library":
			p.Text = slices.Clone([]byte(value))
		}
	}
	return rows.Err()
}

// viewString matches a string of a view with its introducer, or a quoted name.
var viewString = regexp.MustCompile("(?s)(_\\w+ ?)?'((?:[^'\\\\]|\\\\.|'')*)'|`(?:[^`]|``)*`")

func viewStrings(text string) (all [][]string) {
	return slices.DeleteFunc(viewString.FindAllStringSubmatch(text, -1), func(s []string) bool { return s[0][0] == '`' })
}

// compareStrings finds out whether the server has lost characters of a view. With character_set_client=binary and
// another collation_connection, MySQL keeps a byte, or a question mark, of each that is not ASCII: queries of the view
// fail, or find nothing. Strings with an introducer are kept.
func (p *program) compareStrings(ctx context.Context, conn *sql.Conn) error {
	if p.Kind != "VIEW" || p.Client != "binary" || p.Connection == "binary" || p.Text == nil {
		return nil
	}
	var definition string // as it was written, without introducers
	if err := conn.QueryRowContext(ctx, `SELECT view_definition FROM information_schema.views
		WHERE table_schema = DATABASE() AND table_name = `+utf8Literal(p.Name)).Scan(&definition); err != nil {
		return err
	}
	written, kept := viewStrings(definition), viewStrings(string(p.Text))
	same := len(written) == len(kept)
	for n := 0; same && n < len(kept); n++ {
		same = kept[n][1] != "" || kept[n][2] == written[n][2]
	}
	if !same {
		p.Broken, p.Text = "the server has lost characters of its strings", nil
	}
	return nil
}

// gap matches what can be between words of a statement, and anyName a name, quoted or not.
const (
	gap     = `(?:\s|/\*.*?\*/)*`
	anyName = `(?:` + quoted + "|[^\\s`\"]+)"
)

// triggerHead matches what is before the statement in the text of a trigger. MariaDB keeps that text as the user wrote
// it.
var triggerHead = regexp.MustCompile(`(?is)^(?:` + quoted + `|/\*.*?\*/|.)*?\bFOR\s+EACH\s+ROW\b` + gap +
	`(?:(?:FOLLOWS|PRECEDES)` + gap + anyName + `)?`)

// order matches the clause with the place among the triggers of the same event. They are created in their order. That
// other trigger may be gone.
var order = regexp.MustCompile(`(?is)(\bROW\b` + gap + `)(?:FOLLOWS|PRECEDES)` + gap + anyName + `$`)

// usedLibraries matches how MySQL prints the beginning of a routine, up to the libraries that it uses.
var usedLibraries = regexp.MustCompile(`(?s)^CREATE .*?\n    LANGUAGE \w+\n    USING \((?:` + quoted + `|[^()])*\)`)

// returned matches how servers print the beginning of a function, up to the type that it returns. The parameters are
// the text of the user. What a string is in it depends on the SQL mode NO_BACKSLASH_ESCAPES: see literallyReturned.
var (
	returned          = returnedAfter(`'(?:[^'\\]|\\.|'')*'`)
	literallyReturned = returnedAfter(`'[^']*'`)
)

func returnedAfter(text string) *regexp.Regexp {
	one := text + `|` + quoted + `|/\*.*?\*/|[^()'"` + "`" + `]`
	return regexp.MustCompile(`(?s)^CREATE [^(]*?FUNCTION ` + quoted + `\((?:` + one + `|\((?:` + one + `)*\))*\)` +
		` RETURNS? ((?:'(?:[^'\\]|\\.|'')*'|[^'\n])*)`)
}

// literally reports whether a backslash in a string of the program is one.
func (p *program) literally() bool { return strings.Contains(p.SQLMode, "NO_BACKSLASH_ESCAPES") }

// returned finds the beginning of a function, and the type that it returns.
func (p *program) returned() []int {
	if p.literally() {
		return literallyReturned.FindSubmatchIndex(p.Text)
	}
	return returned.FindSubmatchIndex(p.Text)
}

// leaveOwnNames leaves out the name of the database where servers keep it: before the names of a trigger, its table,
// libraries, and the table whose column or row a function returns.
func (p *program) leaveOwnNames(database string) {
	var head []byte
	switch p.Kind {
	case "TRIGGER":
		head = triggerHead.Find(p.Text)
	case "FUNCTION":
		if head = usedLibraries.Find(p.Text); head == nil {
			if found := p.returned(); found != nil {
				head = p.Text[:found[1]]
			}
		}
	case "PROCEDURE":
		head = usedLibraries.Find(p.Text)
	}
	name := regexp.QuoteMeta(database)
	own := regexp.MustCompile("(?s)/\\*.*?\\*/|(?:`" + name + "`|\"" + name + "\"|\\b" + name + ")\\s*\\.\\s*|" + quoted)
	without := own.ReplaceAllFunc(order.ReplaceAll(head, []byte("$1")), func(found []byte) []byte {
		if found[0] != '/' && bytes.HasSuffix(bytes.TrimSpace(found), []byte(".")) {
			return nil
		}
		return found
	})
	p.Text = slices.Concat(without, p.Text[len(head):])
}

// check refuses programs that cannot be copied. None is ever left out silently.
func (p programSet) check(o Options) error {
	for _, list := range [][]program{p.Views, p.Libraries, p.Routines, p.Triggers, p.Events} {
		for _, one := range list {
			if one.Text == nil && one.Broken == "" {
				return refused(nil, "The broker may not read the %s. Ask your operator to grant the broker's account on the "+
					"MySQL server what it needs: SHOW_ROUTINE on MySQL, or SELECT on mysql.proc on MariaDB.", one)
			}
		}
	}
	if len(p.Events) > 0 && !o.Events {
		return refused(nil, "The database has events, and the plan of the copy allows none. Choose a plan that does, or "+
			"drop the %s.", p.Events[0])
	}
	return nil
}

// readParameters returns what Parameters has of each routine, by its String: what the server has stored, whatever the
// text says. condition chooses routines.
func readParameters(ctx context.Context, conn *sql.Conn, condition string) (map[string][]string, error) {
	all := map[string][]string{}
	return all, mysqladmin.EachRow(ctx, conn, `SELECT '', '', '', 0 FROM DUAL WHERE FALSE /*!80000 UNION ALL
		SELECT routine_type, specific_name, collation_name, ordinal_position FROM information_schema.parameters
		WHERE specific_schema = DATABASE() AND collation_name IS NOT NULL AND ordinal_position > 0 AND `+condition+`
		ORDER BY 4 */`,
		func(rows *sql.Rows) error {
			var p program
			var collation, at string
			err := rows.Scan(&p.Kind, &p.Name, &collation, &at)
			all[p.String()] = append(all[p.String()], collation)
			return err
		})
}

// sameCollation compares names of collations. Before 8.0.30, MySQL has utf8 in those of utf8mb3.
func sameCollation(a, b string) bool {
	return strings.Replace(a, "utf8_", "utf8mb3_", 1) == strings.Replace(b, "utf8_", "utf8mb3_", 1)
}

// errOtherCollations is why the copy may lack a routine.
var errOtherCollations = errors.New("the server gives its parameters other collations")

// make creates the program with the settings of its own, and with others on which the collations of its parameters
// depend, until these are those of the source.
func (p program) make(ctx context.Context, b *builder, conn *sql.Conn) error {
	tries := []string{"", "default_collation_for_utf8mb4 = utf8mb4_general_ci"}
	for _, collation := range slices.Compact(slices.Sorted(slices.Values(p.Parameters))) {
		ofDatabase := "collation_database = " + collation
		tries = append(tries, ofDatabase, ofDatabase+", "+tries[1])
	}
	for _, settings := range tries {
		if err := p.makeWith(ctx, b, conn, settings); err != nil || p.Parameters == nil {
			return err
		}
		there, err := readParameters(ctx, conn, "specific_name = "+utf8Literal(p.Name))
		if err != nil || slices.EqualFunc(there[p.String()], p.Parameters, sameCollation) {
			return err
		}
		if err := b.dropProgram(ctx, conn, p); err != nil {
			return err
		}
	}
	return errOtherCollations
}

// makeWith creates the program with more settings; "" for none.
func (p program) makeWith(ctx context.Context, b *builder, conn *sql.Conn, more string) error {
	var settings []string
	if p.Kind == "LIBRARY" { // which has no character set but utf8mb4
		p.Client, p.Connection = "utf8mb4", "utf8mb4_bin"
	}
	settings = append(settings, "collation_connection = "+string(appendQuoted(nil, []byte(p.Connection))))
	if p.Kind != "VIEW" {
		settings = append(settings, "sql_mode = "+string(appendQuoted(nil, []byte(p.SQLMode))))
	}
	if p.Kind == "EVENT" {
		settings = append(settings, "time_zone = "+string(appendQuoted(nil, []byte(p.TimeZone))))
	}
	if aDayBefore := p.before.AddDate(0, 0, -1); !p.before.IsZero() && aDayBefore.Before(time.Now()) {
		settings = append(settings, fmt.Sprintf("timestamp = %d", max(aDayBefore.Unix(), 1)))
	}
	settings = append(settings, "character_set_client = "+string(appendQuoted(nil, []byte(p.Client))))
	if more != "" {
		settings = append(settings, more)
	}
	if err := b.exec(ctx, conn, "SET SESSION "+strings.Join(settings, ", ")); err != nil {
		return err
	}
	text := withoutDefiner(string(p.Text))
	switch p.Kind {
	case "EVENT":
		text = notPreserved.ReplaceAllString(text, "$1")
	case "VIEW":
		text = inDatabase(text, b.Source, b.Database)
	}
	return b.withCollation(ctx, conn, p.Database, func() error {
		err := b.exec(ctx, conn, text)
		_, resetting := conn.ExecContext(ctx, writeSession)
		if resetting == nil && more != "" {
			_, resetting = conn.ExecContext(ctx,
				"SET SESSION collation_database = DEFAULT, default_collation_for_utf8mb4 = DEFAULT")
		}
		return cmp.Or(err, resetting)
	})
}

// inDatabase makes a view call what is in another database than the one in which it was created. Servers leave out the
// name of that one before tables, but MariaDB adds it before sequences and packages.
func inDatabase(view, from, to string) string {
	if from == "" || from == to {
		return view
	}
	qualifier := quoteName(from) + "."
	return regexp.MustCompile(regexp.QuoteMeta(qualifier)+"|"+masked.String()).ReplaceAllStringFunc(view,
		func(found string) string {
			if found == qualifier {
				return quoteName(to) + "."
			}
			return found
		})
}

// withCollation runs fn while the database has another default collation, unless that is "". Routines keep the one with
// which they were created: their variables have it.
func (b *builder) withCollation(ctx context.Context, conn *sql.Conn, collation string, fn func() error) error {
	own := b.Collation
	if collation == "" || collation == own {
		return fn()
	}
	alter := func(collation string) error {
		return b.exec(ctx, conn, "ALTER DATABASE "+quoteName(b.Database)+" COLLATE "+quoteName(collation))
	}
	if err := alter(collation); err != nil {
		return err
	}
	return cmp.Or(fn(), alter(own))
}

// makeAll creates programs, some of which may need others of them. It tries those that fail again, until none succeeds.
func (b *builder) makeAll(ctx context.Context, conn *sql.Conn, list []program) error {
	for len(list) > 0 {
		var failed []program
		var failures []error
		for _, p := range list {
			err := errors.New(p.Broken)
			if p.Broken == "" {
				err = p.make(ctx, b, conn)
				if err != nil && !errors.Is(err, errOtherCollations) && (number(err) == 0 || passes(err)) {
					return err // of the connection, or of whatever the server is asked
				}
			}
			if err != nil {
				failed, failures = append(failed, p), append(failures, err)
			}
		}
		if len(failed) == len(list) {
			if len(b.late) > 0 && slices.ContainsFunc(failures, func(err error) bool { return number(err) == errNoSuchKey }) {
				b.waiting = failed
				return nil
			}
			return b.options.leaveOut(failed, failures)
		}
		list = failed
	}
	return nil
}

// Errors of something that does not exist: as the copy has all tables of the source, it does not exist there either.
var brokenErrors = map[string][]uint16{"VIEW": {1054, errNoSuchTable, 1305, 1356}, "TRIGGER": {1054}}

// leaveOut returns an error unless the copy may lack the programs.
func (o Options) leaveOut(failed []program, failures []error) error {
	for n, p := range failed {
		broken := p.Broken != "" || slices.Contains(brokenErrors[p.Kind], number(failures[n]))
		if o.LeftOut != nil && o.LeftOut(p.String(), broken, failures[n]) {
			continue
		}
		if p.Broken != "" {
			return refused(failures[n], "The server cannot open the %s: it uses something that does not exist, its text is not "+
				"valid, or it needs more memory than a session may take. Mend or drop it, and try again.", p)
		}
		if errors.Is(failures[n], errOtherCollations) {
			return refused(failures[n], "The server does not give the parameters of the %s their collations again. Create it "+
				"with COLLATE for each of them, and use a copy or a backup that is made afterwards.", p)
		}
		return refused(failures[n], "The %s cannot be created in the copy (MySQL error %d). It may use something that does "+
			"not exist, or another database. Mend or drop it, and try again.", p, number(failures[n]))
	}
	return nil
}
