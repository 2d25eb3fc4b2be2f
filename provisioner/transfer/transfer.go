// Package transfer copies a database from one server to another of the same flavour, over the network. Both databases
// belong to the same tenant, who may have made them hostile: rows are read by an account that can read nothing else,
// and everything is created by an account that can reach nothing else and becomes the definer.
//
// A copy shows the source as it was at one moment. Applications go on reading and writing there. Copy compares every
// table afterwards. Called again after an interruption, it takes a new snapshot, compares and copies what differs.
package transfer

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

	"github.com/go-sql-driver/mysql"
)

// Source is the database to copy. Each pool connects with the database as its default.
type Source struct {
	Rows     *sql.DB // may SELECT and LOCK TABLES in the database, and nothing else
	Programs *sql.DB // may read the texts of routines, triggers, events and views, and create temporary tables
	Database string
	Running  []string // events that another node of the cluster runs; on this one, they are disabled
	Fatal    []string // objects whose definition the server is not asked for, because it ended when it was
}

// ask calls fn, which asks the server for the definition of an object. Some server ends at some definition.
func (s Source) ask(ctx context.Context, object string, fn func() error) error {
	if slices.Contains(s.Fatal, object) {
		return refused(nil, "The MySQL server ended when it was asked for the definition of the %s, and is not asked again. "+
			"Drop it, or have your operator upgrade the server, and try again.", object)
	}
	asked := time.Now()
	err := fn()
	if err == nil || number(err) != 0 || ctx.Err() != nil {
		return err
	}
	return &LostError{Object: object, For: time.Since(asked), Err: err}
}

// LostError says that the connection was lost after a server was asked for the definition of an object. If the server
// has ended, too, the object belongs to Source.Fatal.
type LostError struct {
	Object string
	For    time.Duration // since the server was asked
	Err    error
}

func (e *LostError) Error() string { return "read the " + e.Object + ": " + e.Err.Error() }
func (e *LostError) Unwrap() error { return e.Err }

// Target is the database to copy to.
type Target struct {
	DB       *sql.DB // has all privileges in the database, and none elsewhere; objects run in the name of its account
	Database string
	Keep     string // a table that Copy leaves alone; "" for none
}

// Options tune a copy.
type Options struct {
	Workers int  // chunks at the same time; 0 means 2. Each worker has one connection to each side.
	Gentle  bool // leave the servers most of the time to others: one worker, short statements, and a rest after each
	// ChunkBytes is about how much data a chunk has, which is compared, mended and committed as a whole; 0 means 4 MiB.
	ChunkBytes uint64
	MaxBytes   int64   // of SQL text, after which the copy is refused; 0 for no limit
	Events     bool    // the target may have events
	Known      *Known  // if not nil, a gentle copy writes down what it knows of the target, and another one uses that
	RowsOnly   bool    // leave out views, routines, triggers and events, but check that they can be copied
	Later      *Events // if not nil, Copy and Load leave the events disabled and set them here
	// LeftOut gets each program that cannot be created, and reports whether the copy may lack it. broken says that it is a
	// view of something that does not exist, as it was in the source. If LeftOut is nil, the copy is refused.
	LeftOut func(program string, broken bool, err error) bool
	// Unpartitioned makes a table without its partitions if the server has them turned off.
	Unpartitioned bool
	InPlace       bool // Load creates functions, and what may call them, after the rows: applications read meanwhile
	// Locked is called at the moment of the snapshot, while nobody can write. Described is called once all definitions are
	// read. Both may be nil.
	Locked, Described func(context.Context) error
	Alive             func() error // called before each change; the copy fails with its error
	// Progress is called after each chunk, with bytes; total is an estimate, which done may exceed. Load calls it after
	// each part, with parts. It may be nil.
	Progress func(done, total uint64)
	// Reserve waits until the process has the memory for long rows, or returns memory.ErrTooLarge. nil stands for a
	// process that has enough.
	Reserve func(ctx context.Context, bytes int64) (release func(), err error)
	// MaxDefinitions limits the bytes of the definitions, all of which are in memory; 0 for no limit.
	MaxDefinitions int64
}

// defined is how many bytes of definitions are in memory.
type defined int64

// add counts a definition, and refuses more than may be in memory.
func (d *defined) add(bytes int, o Options) error {
	*d += defined(bytes)
	if o.MaxDefinitions == 0 || int64(*d) <= o.MaxDefinitions {
		return nil
	}
	return refusedBySettings(nil, "The definitions of the tables, views, routines, triggers and events have more than "+
		"%d MiB, which is more than the broker has the memory to copy. Ask your operator to give the broker more memory.",
		o.MaxDefinitions>>20)
}

// complete sets the defaults.
func (o Options) complete() Options {
	o.Workers, o.ChunkBytes = cmp.Or(o.Workers, 2), cmp.Or(o.ChunkBytes, chunkBytes)
	if o.Gentle {
		o.Workers = 1
	}
	if o.Alive == nil {
		o.Alive = func() error { return nil }
	}
	if o.Reserve == nil {
		o.Reserve = func(context.Context, int64) (func(), error) { return func() {}, nil }
	}
	return o
}

func (o Options) chunkBytes() uint64 {
	if o.Gentle {
		return o.ChunkBytes / gentleParts
	}
	return o.ChunkBytes
}

func (o Options) statementBytes() int {
	if o.Gentle {
		return gentleStatementBytes
	}
	return statementBytes
}

// RefusedError says why a database cannot be copied. Trying again does not help.
type RefusedError struct {
	Sentence   string // for users
	Err        error
	BySettings bool // of the target's server: one with other settings may take the database
}

func (e *RefusedError) Error() string {
	if e.Err == nil {
		return e.Sentence
	}
	return fmt.Sprintf("%s (%v)", e.Sentence, e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// refused returns a RefusedError, unless err passes.
func refused(err error, format string, args ...any) error {
	if passes(err) {
		return err
	}
	return &RefusedError{Sentence: fmt.Sprintf(format, args...), Err: err}
}

func refusedBySettings(err error, format string, args ...any) error {
	return &RefusedError{Sentence: fmt.Sprintf(format, args...), Err: err, BySettings: true}
}

// SourceError is an error of the source's server. All other errors of servers are of the target's.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return "source: " + e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

func ofSource(err error) error {
	if err == nil {
		return nil
	}
	return &SourceError{err}
}

// ErrChanged says that the definition of a table was changed in the source during the copy. Copy may be called again.
var ErrChanged = errors.New("a table of the source was changed or dropped during the copy")

// ErrLocked says that a transaction kept a table of the source locked, so that no snapshot could be taken. Copy may be
// called again.
var ErrLocked = errors.New("a transaction keeps a table of the source locked")

// Numbers of server errors.
// https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html
const (
	errDuplicate       = 1062
	errUnknownTable    = 1109 // of information_schema
	errNoSuchTable     = 1146
	errNoSuchKey       = 1176
	errLockWaitTimeout = 1205
	errDeadlock        = 1213
	errDefChanged      = 1412
	errNoPartition     = 1526
	errOptionPrevents  = 1290 // which forbids the statement

	errMissingPrivilege = 1227
	errCheckViolated    = 3819
	errConnectionMemory = 4082
)

// passing are the errors of a server that accepts no changes now, whatever they are, or ends the connection.
var passing = []uint16{
	1021, // disk full
	1040, // too many connections
	1047, // a Galera node without a majority
	1053, // server shutdown in progress
	1114, // the table is full: so is the disk
	errLockWaitTimeout, errDeadlock,
	1836, // read-only mode
	1927, // connection killed, MariaDB
	3100, // Group Replication: the member could not commit
	3101, // the same, because of a conflict, or because the member has left
	3169, // session killed, MySQL
}

// passes reports whether the server refused a statement for reasons that have nothing to do with it, and that can pass:
// with errOptionPrevents, that the server is read-only.
func passes(err error) bool {
	n := number(err)
	return slices.Contains(passing, n) ||
		n == errOptionPrevents && !forbidsPartitions(err) && !prevented(err, "session-mem-used")
}

// forbidsPartitions reports whether the server refused a statement because partitions are turned off.
func forbidsPartitions(err error) bool { return prevented(err, "partition") }

// prevented reports whether the server refused a statement because of an option. Its name is the same in messages of
// every language.
func prevented(err error, option string) bool {
	refusal, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && refusal.Number == errOptionPrevents && strings.Contains(refusal.Message, option)
}

func number(err error) uint16 {
	if refusal, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return refusal.Number
	}
	return 0
}

// Copy makes the target a copy of the source.
func Copy(ctx context.Context, from Source, to Target, o Options) error {
	o = o.complete()
	taken, err := takeSnapshot(ctx, from, o)
	if err != nil {
		return err
	}
	defer taken.close()
	programs, err := readPrograms(ctx, from, o, &taken.defined)
	if err != nil {
		return err
	}
	if err := programs.check(o); err != nil {
		return err
	}
	b := newBuilder(Schema{taken.version, taken.tables, programs}, to, o)
	return b.build(ctx, taken, func(ctx context.Context, c *copier) error { return c.copyRows(ctx) })
}

// quoted matches an identifier as SHOW CREATE prints it, also in a program with the SQL mode ANSI_QUOTES.
const quoted = "(?:`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\")"

// definer matches the definer in what SHOW CREATE prints, and nothing in the text of a program.
var definer = regexp.MustCompile(`(?s)^(CREATE (?:OR REPLACE )?(?:ALGORITHM=\w+ )?(?:MATERIALIZED (?:/\*.*?\*/ )?)?)` +
	"DEFINER=" + quoted + "@" + quoted + " ")

// withoutDefiner makes the account that runs the statement the definer.
func withoutDefiner(create string) string { return definer.ReplaceAllString(create, "$1") }
