package transfer

import (
	"cmp"
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"
)

// writeSession are the settings of the connections that write. Without NO_AUTO_VALUE_ON_ZERO, a 0 would become a new
// number. Dates may be as invalid as they are in the source, and on MariaDB, where sessions can turn checks off, so may
// rows. The strings have their character set because the session can have one that is not of bytes, such as ucs2. A
// TIMESTAMP NOT NULL has no other default than the one that is printed, whatever the server's setting.
const writeSession = `SET SESSION character_set_client = utf8mb4, character_set_results = NULL,
	collation_connection = utf8mb4_bin, ` + utcSession + `, foreign_key_checks = 0, lock_wait_timeout = 5,
	timestamp = DEFAULT,
	sql_mode = _utf8mb4'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'
	/*M! , check_constraint_checks = 0 */
	/*!80000 , explicit_defaults_for_timestamp = 1 */ /*M!100802 , explicit_defaults_for_timestamp = 1 */` + withHidden

// withHidden has MySQL print primary keys that it has generated, even where they are to be hidden.
const withHidden = ` /*!80030 , show_gipk_in_create_table_and_information_schema = ON */`

// looseSession allows definitions that a strict server refuses, and values that only look wrong, such as the empty
// value of an ENUM. The comparison finds values that the server changes. On MariaDB, where anybody may create tables
// without InnoDB's strict mode, it also allows rows that can become too long for a page, and options that do not fit;
// on MySQL, foreign keys to keys that are not unique, which anybody may create.
const looseSession = `SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'
	/*M! , innodb_strict_mode = 0 */ /*!80400 , restrict_fk_on_non_standard_key = OFF */`

const strictSession = `SET SESSION
	sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'`

// oracleSession lets MariaDB before 11.4 drop packages.
const oracleSession = "SET SESSION sql_mode = 'ORACLE'"

// connect opens a connection to the target. Close it with discard.
func (t Target) connect(ctx context.Context) (*sql.Conn, error) {
	conn, err := t.DB.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{writeSession, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			discard(conn)
			return nil, err
		}
	}
	return conn, nil
}

// connectLoosely is connect with looseSession.
func (c *copier) connectLoosely(ctx context.Context) (*sql.Conn, error) {
	conn, err := c.to.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.exec(ctx, conn, looseSession); err != nil {
		discard(conn)
		return nil, err
	}
	return conn, nil
}

// makeSchema makes tables, sequences, routines and views, but no triggers, which rows would set off. It drops what an
// interrupted copy has left and is not the same in the source.
func (c *copier) makeSchema(ctx context.Context) error {
	conn, err := c.to.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	if err := c.options.recognize(ctx, conn); err != nil {
		return err
	}
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return err
	}
	c.presentThere, c.presentHere = endOfPresent(c.snapshot.version), endOfPresent(version)
	if err := c.dropPrograms(ctx, conn); err != nil {
		return err
	}
	if err := c.setDefaults(ctx, conn); err != nil {
		return err
	}
	if err := c.makeTables(ctx, conn); err != nil || c.options.RowsOnly {
		return err
	}
	if c.functionsLast() {
		return nil
	}
	return c.makeRoutinesAndViews(ctx, conn)
}

// setDefaults gives the database the default collation and the comment that the source has. On MySQL, the statement
// waits for everybody who uses the database, so it runs only if it changes something.
func (c *copier) setDefaults(ctx context.Context, conn *sql.Conn) error {
	collation, comment, err := defaultsOf(ctx, conn, c.to.Database)
	if err != nil || collation == c.programs.collation && comment == c.programs.comment {
		return err
	}
	return c.exec(ctx, conn, "ALTER DATABASE "+quoteName(c.to.Database)+" COLLATE "+quoteName(c.programs.collation)+
		c.programs.comment)
}

func (c *copier) makeRoutinesAndViews(ctx context.Context, conn *sql.Conn) error {
	if err := c.makeAll(ctx, conn, slices.Concat(c.programs.libraries, c.programs.routines)); err != nil {
		return err
	}
	return c.makeAll(ctx, conn, c.programs.views)
}

// functionsLast reports whether routines and views are created after the rows: whoever reads a view runs its functions
// in the name of the owner, who may write.
func (c *copier) functionsLast() bool {
	return c.options.InPlace && slices.ContainsFunc(c.programs.routines, func(p program) bool {
		return p.kind != "PROCEDURE"
	})
}

func (c *copier) dropPrograms(ctx context.Context, conn *sql.Conn) error {
	for _, l := range listPrograms {
		old, err := names(ctx, conn, l.query)
		if err != nil {
			return err
		}
		for _, p := range old {
			if err := c.dropProgram(ctx, conn, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *copier) dropProgram(ctx context.Context, conn *sql.Conn, p program) error {
	statements := []string{"DROP " + p.kind + " IF EXISTS " + quoteName(p.name)}
	if strings.HasPrefix(p.kind, "PACKAGE") {
		statements = []string{oracleSession, statements[0], writeSession}
	}
	for _, statement := range statements {
		if err := c.exec(ctx, conn, statement); err != nil {
			return err
		}
	}
	return nil
}

// Empty drops everything in the target.
func Empty(ctx context.Context, to Target, alive func() error) error {
	c := &copier{snapshot: &snapshot{}, to: to, options: Options{Alive: alive}}
	conn, err := c.to.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	if err := c.dropPrograms(ctx, conn); err != nil {
		return err
	}
	return c.makeTables(ctx, conn)
}

func (c *copier) makeTables(ctx context.Context, conn *sql.Conn) error {
	if err := c.exec(ctx, conn, looseSession); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, "SELECT 0 /*!80030 + @@sql_generate_invisible_primary_key */").
		Scan(&c.addsKeys); err != nil {
		return err
	}
	old, _, err := listTables(ctx, conn)
	if err != nil {
		return err
	}
	c.progress.kept = map[string]bool{}
	for _, t := range old {
		if t.name == c.to.Keep {
			continue
		}
		at := slices.IndexFunc(c.snapshot.tables, func(s table) bool { return s.name == t.name })
		if at >= 0 && !t.sequence && !t.versioned {
			if err := t.describe(ctx, conn, c.to.Database); err != nil {
				return err
			}
			if err := t.mendTexts(ctx, conn); err != nil {
				return err
			}
			early, keys := c.splitCreate(&c.snapshot.tables[at])
			complete := sameDefinition(t.create, c.snapshot.tables[at].create)
			if complete || sameDefinition(t.create, early) {
				c.progress.kept[t.name] = true
				if !complete {
					c.late = append(c.late, keys)
				}
				if source := c.snapshot.tables[at]; source.counter() != t.counter() {
					c.counters = append(c.counters, source)
				}
				continue
			}
		}
		if err := c.exec(ctx, conn, "DROP TABLE "+t.String()); err != nil {
			return err
		}
	}
	for _, sequences := range []bool{true, false} { // which can be defaults of columns
		for n := range c.snapshot.tables {
			t := &c.snapshot.tables[n]
			if t.sequence != sequences || c.progress.kept[t.name] {
				continue
			}
			if err := c.makeTable(ctx, conn, t); err != nil {
				return err
			}
		}
	}
	return c.exec(ctx, conn, strictSession)
}

func (c *copier) makeTable(ctx context.Context, conn *sql.Conn, t *table) error {
	if c.addsKeys && !t.sequence && !strings.Contains(t.create, "\n  PRIMARY KEY (") {
		return refusedBySettings(nil, "Table %s has no primary key, and the copy's server adds one to each such table. Add "+
			"one yourself, or ask your operator to turn sql_generate_invisible_primary_key off.", t.name)
	}
	early, keys := c.splitCreate(t)
	if len(keys.clauses) > 0 {
		c.late = append(c.late, keys)
	}
	err := c.exec(ctx, conn, early)
	if without, found := withoutPartitions(early); found && forbidsPartitions(err) {
		if !c.options.Unpartitioned {
			return refusedBySettings(err, "Table %s has partitions, which the copy's server does not allow. Remove them with "+
				"ALTER TABLE … REMOVE PARTITIONING, or choose a dedicated plan.", t.name)
		}
		err = c.exec(ctx, conn, without)
	}
	if err != nil {
		if number(err) != 0 {
			return refused(err, "Table %s cannot be created in the copy (MySQL error %d).", t.name, number(err))
		}
		return err
	}
	if !t.sequence {
		return c.dropDefaults(ctx, conn, t)
	}
	// SETVAL also sets the round of a sequence that cycles, but does not go back, which RESTART does.
	if err := c.exec(ctx, conn, "ALTER SEQUENCE "+t.String()+" RESTART "+t.next); err != nil {
		return err
	}
	return c.exec(ctx, conn, "DO SETVAL("+t.String()+", "+t.next+", 0, "+cmp.Or(t.round, "0")+")")
}

// dropDefaults takes the default NULL from columns that have none in the source: MySQL then requires a value. MariaDB
// has no statement for that.
func (c *copier) dropDefaults(ctx context.Context, conn *sql.Conn, t *table) error {
	columns := t.withoutDefault()
	if len(columns) == 0 || strings.Contains(c.snapshot.version, "MariaDB") {
		return nil
	}
	return c.exec(ctx, conn, "ALTER TABLE "+t.String()+" ALTER "+strings.Join(columns, " DROP DEFAULT, ALTER ")+
		" DROP DEFAULT")
}

// partitions matches how SHOW CREATE TABLE begins with them, on a line of their own; on MySQL, in a comment, which
// MariaDB executes.
var partitions = regexp.MustCompile(`\n(?:/\*!\d+)? PARTITION BY `)

// withoutPartitions takes the partitions off what SHOW CREATE TABLE printed, where they come last.
func withoutPartitions(create string) (without string, found bool) {
	all := partitions.FindAllStringIndex(create, -1)
	if len(all) == 0 {
		return create, false
	}
	return create[:all[len(all)-1][0]], true
}

// setCounters gives tables that were there before the copy the counters for AUTO_INCREMENT that the source has. The
// server never lowers one below the rows.
func (c *copier) setCounters(ctx context.Context) error {
	if len(c.counters) == 0 {
		return nil
	}
	conn, err := c.connectLoosely(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	for _, t := range c.counters {
		if err := c.exec(ctx, conn, "ALTER TABLE "+t.String()+t.counter()); err != nil {
			return err
		}
	}
	return nil
}

// makeLate makes what would change rows while they are copied.
func (c *copier) makeLate(ctx context.Context) error {
	conn, err := c.to.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	if c.functionsLast() {
		if err := c.makeRoutinesAndViews(ctx, conn); err != nil {
			return err
		}
	}
	if err := c.makeAll(ctx, conn, slices.Concat(c.waiting, c.programs.triggers)); err != nil {
		return err
	}
	later, err := c.makeEvents(ctx, conn)
	switch {
	case err != nil:
		return err
	case c.options.Later != nil:
		*c.options.Later = later
		return nil
	}
	return later.Enable(ctx, c.to, c.options.Alive)
}
