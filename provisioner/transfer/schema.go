package transfer

import (
	"cmp"
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"
)

// builder makes the tables and programs of a target.
type builder struct {
	Schema // of the source
	target
	options Options

	versionHere string          // of the target's server
	kept        map[string]bool // tables that were there before
	late        []lateKeys
	waiting     []program // views that name some of these keys
	counters    []table   // whose counter for AUTO_INCREMENT differs in the target
	addsKeys    bool      // the target adds a primary key to a table that has none
}

func newBuilder(s Schema, to Target, o Options) *builder {
	return &builder{Schema: s, target: target{to, o.Alive}, options: o}
}

// build makes everything, and has rows copied from a snapshot by fn.
func (b *builder) build(ctx context.Context, from *snapshot, fn func(context.Context, *copier) error) error {
	if err := b.makeSchema(ctx); err != nil {
		return err
	}
	c := &copier{reader: reader{snapshot: from, options: b.options, kept: b.kept}, target: b.target,
		presentThere: endOfPresent(b.Version), presentHere: endOfPresent(b.versionHere)}
	if err := fn(ctx, c); err != nil {
		return err
	}
	if err := b.addKeys(ctx); err != nil {
		return err
	}
	if err := b.setCounters(ctx); err != nil || b.options.RowsOnly {
		return err
	}
	return b.makeLate(ctx)
}

// makeSchema makes tables, sequences, routines and views, but no triggers, which rows would set off. It drops what an
// interrupted copy has left and is not the same in the source.
func (b *builder) makeSchema(ctx context.Context) error {
	conn, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	if err := b.options.recognize(ctx, conn); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&b.versionHere); err != nil {
		return err
	}
	if err := b.dropPrograms(ctx, conn); err != nil {
		return err
	}
	if err := b.setDefaults(ctx, conn); err != nil {
		return err
	}
	if err := b.makeTables(ctx, conn); err != nil || b.options.RowsOnly {
		return err
	}
	if b.functionsLast() {
		return nil
	}
	return b.makeRoutinesAndViews(ctx, conn)
}

// setDefaults gives the database the default collation and the comment that the source has. On MySQL, the statement
// waits for everybody who uses the database, so it runs only if it changes something.
func (b *builder) setDefaults(ctx context.Context, conn *sql.Conn) error {
	collation, comment, err := defaultsOf(ctx, conn, b.Database)
	if err != nil || collation == b.Collation && comment == b.Comment {
		return err
	}
	return b.exec(ctx, conn, "ALTER DATABASE "+quoteName(b.Database)+" COLLATE "+quoteName(b.Collation)+
		b.Comment)
}

func (b *builder) makeRoutinesAndViews(ctx context.Context, conn *sql.Conn) error {
	if err := b.makeAll(ctx, conn, slices.Concat(b.Libraries, b.Routines)); err != nil {
		return err
	}
	return b.makeAll(ctx, conn, b.Views)
}

// functionsLast reports whether routines and views are created after the rows: whoever reads a view runs its functions
// in the name of the owner, who may write.
func (b *builder) functionsLast() bool {
	return b.options.InPlace && slices.ContainsFunc(b.Routines, func(p program) bool {
		return p.Kind != "PROCEDURE"
	})
}

// Empty drops everything in the target.
func Empty(ctx context.Context, to Target, alive func() error) error {
	b := newBuilder(Schema{}, to, Options{Alive: alive})
	conn, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	if err := b.dropPrograms(ctx, conn); err != nil {
		return err
	}
	return b.makeTables(ctx, conn)
}

func (b *builder) makeTables(ctx context.Context, conn *sql.Conn) error {
	if err := b.exec(ctx, conn, looseSession); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, "SELECT 0 /*!80030 + @@sql_generate_invisible_primary_key */").
		Scan(&b.addsKeys); err != nil {
		return err
	}
	old, _, err := listTables(ctx, conn)
	if err != nil {
		return err
	}
	b.kept = map[string]bool{}
	for _, t := range old {
		if t.Name == b.Keep {
			continue
		}
		source := find(b.Tables, t.Name)
		if source != nil && !t.Sequence && !t.Versioned {
			if err := t.describe(ctx, conn, b.Database); err != nil {
				return err
			}
			if err := t.mendTexts(ctx, conn); err != nil {
				return err
			}
			early, keys := b.splitCreate(source)
			complete := sameDefinition(t.Create, source.Create) && !keys.words
			if complete || sameDefinition(t.Create, early) {
				b.kept[t.Name] = true
				if !complete {
					b.late = append(b.late, keys)
				}
				if source.counter() != t.counter() {
					b.counters = append(b.counters, *source)
				}
				continue
			}
		}
		if err := b.exec(ctx, conn, "DROP TABLE "+t.String()); err != nil {
			return err
		}
	}
	for _, sequences := range []bool{true, false} { // which can be defaults of columns
		for n := range b.Tables {
			t := &b.Tables[n]
			if t.Sequence != sequences || b.kept[t.Name] {
				continue
			}
			if err := b.makeTable(ctx, conn, t); err != nil {
				return err
			}
		}
	}
	return b.exec(ctx, conn, strictSession)
}

func (b *builder) makeTable(ctx context.Context, conn *sql.Conn, t *table) error {
	if b.addsKeys && !t.Sequence && !strings.Contains(t.Create, "\n  PRIMARY KEY (") {
		return refusedBySettings(nil, "Table %s has no primary key, and the copy's server adds one to each such table. Add "+
			"one yourself, or ask your operator to turn sql_generate_invisible_primary_key off.", t.Name)
	}
	early, keys := b.splitCreate(t)
	if len(keys.clauses) > 0 {
		b.late = append(b.late, keys)
	}
	err := b.exec(ctx, conn, early)
	if without, found := withoutPartitions(early); found && forbidsPartitions(err) {
		if !b.options.Unpartitioned {
			return refusedBySettings(err, "Table %s has partitions, which the copy's server does not allow. Remove them with "+
				"ALTER TABLE … REMOVE PARTITIONING, or choose a dedicated plan.", t.Name)
		}
		err = b.exec(ctx, conn, without)
	}
	if err == nil {
		err = b.dropAddedKeys(ctx, conn, t)
	}
	if err != nil {
		if number(err) != 0 {
			return refused(err, "Table %s cannot be created in the copy (MySQL error %d).", t.Name, number(err))
		}
		return err
	}
	if !t.Sequence {
		return b.dropDefaults(ctx, conn, t)
	}
	// SETVAL also sets the round of a sequence that cycles, but does not go back, which RESTART does.
	if err := b.exec(ctx, conn, "ALTER SEQUENCE "+t.String()+" RESTART "+t.Next); err != nil {
		return err
	}
	return b.exec(ctx, conn, "DO SETVAL("+t.String()+", "+t.Next+", 0, "+cmp.Or(t.Round, "0")+")")
}

// dropDefaults takes the default NULL from columns that have none in the source: MySQL then requires a value. MariaDB
// has no statement for that.
func (b *builder) dropDefaults(ctx context.Context, conn *sql.Conn, t *table) error {
	columns := t.withoutDefault()
	if len(columns) == 0 || strings.Contains(b.Version, "MariaDB") {
		return nil
	}
	return b.exec(ctx, conn, "ALTER TABLE "+t.String()+" ALTER "+strings.Join(columns, " DROP DEFAULT, ALTER ")+
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
func (b *builder) setCounters(ctx context.Context) error {
	if len(b.counters) == 0 {
		return nil
	}
	conn, err := b.connect(ctx, looseSession)
	if err != nil {
		return err
	}
	defer discard(conn)
	for _, t := range b.counters {
		if err := b.exec(ctx, conn, "ALTER TABLE "+t.String()+t.counter()); err != nil {
			return err
		}
	}
	return nil
}

// makeLate makes what would change rows while they are copied.
func (b *builder) makeLate(ctx context.Context) error {
	conn, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	if b.functionsLast() {
		if err := b.makeRoutinesAndViews(ctx, conn); err != nil {
			return err
		}
	}
	if err := b.makeAll(ctx, conn, slices.Concat(b.waiting, b.Triggers)); err != nil {
		return err
	}
	later, err := b.makeEvents(ctx, conn)
	switch {
	case err != nil:
		return err
	case b.options.Later != nil:
		*b.options.Later = later
		return nil
	}
	return later.Enable(ctx, b.Target, b.options.Alive)
}
