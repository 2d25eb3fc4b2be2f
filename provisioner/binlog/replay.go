package binlog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Replay repeats the changes of one database, as the binary logs of its server have them, in a database on another
// server of the same flavour. That database must have the data from the position where the logs begin. An administrator
// writes the rows, with the statement BINLOG, which writes only the rows that it names. The owner of the database
// changes definitions and becomes their definer, so they cannot reach other databases. Accounts, privileges and other
// databases are left out.
//
// After an error or an interruption, restore that data and begin again.
type Replay struct {
	Administrator *sql.DB // of the target's server
	Owner         *sql.DB // of the target's database alone, which is its default
	Source        string  // the name that the database had
	Target        string
	MySQL         bool // and not MariaDB
	// Until is when to end. What was committed later, or may have been, is left out.
	Until time.Time
	// Settled is the position up to which the logs may create views, routines, triggers and events that exist already: a
	// backup reads them after its rows.
	Settled  Position
	Alive    func() error                // called before each change; Replay fails with its error
	Progress func(committed time.Time)   // called after each transaction
	Empty    func(context.Context) error // drops everything in the target, for DROP DATABASE
	// Reserve waits until the process has the memory for a large event. It may be nil.
	Reserve func(ctx context.Context, bytes int64) (release func(), err error)

	rows, ddl   *sql.Conn
	checksummed bool
	format      []byte // the event that describes the format, nil once the target's server has it
	at          Position
	part        Part
	committed   time.Time
	began       bool              // a transaction is open at the target
	withRows    bool              // the transaction of MariaDB has rows, even if it begins with a definition
	dropped     bool              // the database, at the source
	maps        map[uint64]mapped // the tables of the present statement
	order       [][]byte          // of maps
	twice       bool              // a table of maps was named twice
	batch       []event
	batchBytes  int
	xa          xaTransactions
	resets      map[string]string  // see resets
	session     rowSession         // of the present transaction
	settings    string             // that the session which writes rows has
	zone        string             // the last one of a transaction
	recomputes  bool               // MariaDB computes stored columns where rows are written
	refused     map[string]refusal // by table, see refuseRows
	stored      []stored           // of the target, now or before
	inputs      string             // what the next statement depends on, as events before it say; "" for nothing else
}

// UnsupportedError says that a log has something that cannot be replayed.
type UnsupportedError struct {
	What string
	At   time.Time // when its transaction was committed; zero before the first one
}

func (e *UnsupportedError) Error() string { return "the binary log has " + e.What }

// ErrIncomplete says that a transaction has no end.
var ErrIncomplete = errors.New("the binary log ends within a transaction")

const (
	batchBytes = 1 << 20
	// maxEvent is larger than any that a server with the broker's settings writes.
	maxEvent = 1 << 30
	// largeEvent is more than a replay has the memory for all the time.
	largeEvent = 2 << 20
	// timesInReplay is how often an event is in memory: in the object, as it is read, in a statement, as a string for the
	// driver, and in its packet.
	timesInReplay = 5
)

// Begin opens the connections.
func (r *Replay) Begin(ctx context.Context, at Position) (err error) {
	r.at, r.checksummed, r.maps, r.refused, r.zone = at, true, map[uint64]mapped{}, map[string]refusal{}, "'+00:00'"
	if r.rows, err = r.connect(ctx); err != nil {
		return err
	}
	if r.ddl, err = r.Owner.Conn(ctx); err != nil {
		return err
	}
	// It idles while rows are written.
	if _, err := r.ddl.ExecContext(ctx, "SET SESSION wait_timeout = 31536000"); err != nil {
		return err
	}
	return r.readResets(ctx)
}

// connect opens the connection that writes rows. Nobody has an account for the target yet, so that no tenant can keep a
// lock for which it waits: only the replay's own statements and an operator's backup of the server can.
func (r *Replay) connect(ctx context.Context) (*sql.Conn, error) {
	conn, err := r.Administrator.Conn(ctx)
	if err != nil {
		return nil, err
	}
	_, err = conn.ExecContext(ctx, `SET SESSION sql_log_bin = 0, lock_wait_timeout = 50, innodb_lock_wait_timeout = 50,
		wait_timeout = 31536000`)
	if err != nil {
		discard(conn)
		return nil, err
	}
	return conn, nil
}

// discard closes a connection instead of returning it to its pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// Close closes the connections. What was not committed is rolled back.
func (r *Replay) Close() {
	for _, conn := range []*sql.Conn{r.rows, r.ddl} {
		if conn != nil {
			discard(conn)
		}
	}
}

// Format is called before the first Read, with what Sink.Format got.
func (r *Replay) Format(event []byte) {
	if len(event) < headerBytes+5 {
		return
	}
	r.format = append([]byte(nil), event...)
	r.format[17] &^= 1 // clears the flag "file in use", which the checksum ignores
	r.checksummed = event[len(event)-checksumBytes-1] == 1
}

// NextFile is called where another file begins.
func (r *Replay) NextFile(file string) error {
	if err := r.End(); err != nil {
		return err
	}
	r.at = Position{file, FirstOffset}
	return nil
}

// Part says when the events of a part of a log were committed, by the server's clock.
type Part struct {
	After  time.Time // all of them were committed later than this
	Target Position  // those before Target were committed before ...
	Until  time.Time // ... about this time
}

// readingTakes is for how long a server may take to say where its logs end. It reads Part.Until before Part.Target.
const readingTakes = 5 * time.Second

// provenBy reports whether an event at a position is known to have been committed before a time.
func (p Part) provenBy(at Position, until time.Time) bool {
	return at.Before(p.Target) && !p.Until.Add(readingTakes).After(until)
}

// Read replays the events of a part, which must be whole. It reports whether it has reached Until.
func (r *Replay) Read(ctx context.Context, in io.Reader, of Part) (ended bool, err error) {
	r.part = of
	for {
		var head [headerBytes]byte
		if _, err := io.ReadFull(in, head[:]); errors.Is(err, io.EOF) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		h := readHeader(head[:])
		if h.size < headerBytes || h.size > maxEvent {
			return false, fmt.Errorf("the event at %s has %d bytes", r.at, h.size)
		}
		if ended, err = r.readOne(ctx, in, h, head); ended || err != nil {
			return ended, err
		}
		r.at.Offset += int64(h.size)
	}
}

// readOne replays an event whose header was read.
func (r *Replay) readOne(ctx context.Context, in io.Reader, h header, head [headerBytes]byte) (ended bool, err error) {
	if r.Reserve != nil && h.size > largeEvent {
		release, err := r.Reserve(ctx, timesInReplay*int64(h.size))
		if err != nil {
			return false, fmt.Errorf("memory for the event at %s: %w", r.at, err)
		}
		defer release()
	}
	raw := make([]byte, h.size)
	copy(raw, head[:])
	if _, err := io.ReadFull(in, raw[headerBytes:]); err != nil {
		return false, fmt.Errorf("the event at %s: %w", r.at, err)
	}
	e := event{header: h, raw: raw, body: raw[headerBytes:]}
	if h.kind == formatEvent {
		r.Format(raw)
	}
	if r.checksummed && len(e.body) >= checksumBytes {
		e.body = e.body[:len(e.body)-checksumBytes]
	}
	if ended, err = r.event(ctx, e); err != nil {
		if unsupported, ok := errors.AsType[*UnsupportedError](err); ok {
			unsupported.At = r.committed
		}
		err = fmt.Errorf("replay the event at %s: %w", r.at, err)
	}
	return ended, err
}

// End is called when there is no more to read. It returns ErrIncomplete within a transaction.
func (r *Replay) End() error {
	if r.began || len(r.batch) > 0 || r.xa.open {
		return ErrIncomplete
	}
	return nil
}

func (r *Replay) event(ctx context.Context, e event) (ended bool, err error) {
	switch e.kind {
	case formatEvent: // Read has passed it on
	case gtidEvent, anonymousEvent, mariaGTIDEvent, taggedGTIDEvent:
		return r.transaction(ctx, e)
	case queryEvent:
		return false, r.query(ctx, e)
	case tableMapEvent:
		return false, r.tableMap(e)
	case xidEvent:
		return false, r.commit(ctx)
	case xaPrepareEvent:
		return false, r.prepared(ctx, e)
	case intVarEvent, randEvent, userVarEvent:
		r.inputs = inputs[e.kind]
	default:
		if _, ok := rowsEvents[e.kind]; ok {
			return false, r.row(ctx, e)
		}
		if !harmlessEvents[e.kind] && e.flags&ignorable == 0 {
			return false, &UnsupportedError{What: fmt.Sprintf("events of the kind %d", e.kind)}
		}
	}
	return false, nil
}

// transaction begins a transaction, unless it was committed too late.
func (r *Replay) transaction(ctx context.Context, e event) (ended bool, err error) {
	if err := r.End(); err != nil {
		return false, err
	}
	at, exact := e.commitTime()
	switch {
	case exact:
		ended = at.After(r.Until)
	case !r.part.After.Before(r.Until):
		ended = true
	case r.part.provenBy(r.at, r.Until): // whatever the client has set as its time
		if at.After(r.part.Until) {
			at = r.part.Until
		}
	default: // within that second, or later
		ended = at.Add(time.Second).After(r.Until)
	}
	if ended {
		return true, nil
	}
	r.committed, r.session = at, rowSession{}
	if e.kind == mariaGTIDEvent && len(e.body) > 12 {
		r.withRows = e.body[12]&flagStandalone == 0
		if e.body[12]&flagPreparedXA != 0 {
			r.xa.begin()
		}
	}
	return false, nil
}

// mapped is a table to which the log has assigned a number.
type mapped struct {
	name string
	raw  []byte // the event for the target, nil for a table of another database
}

func (r *Replay) tableMap(e event) error {
	m, err := e.tableMap()
	if err != nil {
		return err
	}
	if m.database != r.Source {
		r.maps[m.id] = mapped{}
		return nil
	}
	r.twice = r.twice || r.maps[m.id].raw != nil
	r.maps[m.id] = mapped{m.table, e.in(r.Target, r.checksummed)}
	r.order = append(r.order, r.maps[m.id].raw)
	return nil
}

func (r *Replay) row(ctx context.Context, e event) error {
	if len(e.body) < 8 {
		return e.errShort()
	}
	table, known := r.maps[tableID(e.body)]
	ends := e.body[6]&statementEnds != 0
	if table.raw != nil {
		if err := r.refuseRows(ctx, table.name, e.kind); err != nil {
			return err
		}
		r.batch = append(r.batch, e)
		r.batchBytes += len(e.raw)
	} else if !known && !ends {
		return errors.New("there are rows of a table that was not named")
	}
	if ends || r.batchBytes >= batchBytes {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	if ends {
		r.endStatement()
	}
	return nil
}

func (r *Replay) endStatement() {
	clear(r.maps)
	r.order, r.twice = nil, false
}

// flush writes the rows of the batch.
func (r *Replay) flush(ctx context.Context) error {
	if len(r.batch) == 0 {
		return nil
	}
	events := slices.Clone(r.order)
	for n, e := range r.batch {
		var flags byte
		if r.MySQL && e.body[6]&loggedForeignKeys != 0 { // the events have what foreign keys did, so these must not act again
			flags |= noForeignKeyChecks
		}
		if n == len(r.batch)-1 {
			flags |= statementEnds
		}
		events = append(events, e.flagged(flags, r.checksummed))
	}
	clear(r.batch)
	r.batch, r.batchBytes = r.batch[:0], 0
	if zone := r.session.set["time_zone"]; zone != "" {
		r.zone = zone
	}
	changes := rowChanges{events, r.session.settings(r.zone, r.MySQL && r.twice)}
	if r.xa.open {
		return r.xa.add(changes)
	}
	return r.apply(ctx, changes)
}

// apply writes rows in the present transaction.
func (r *Replay) apply(ctx context.Context, changes rowChanges) error {
	if err := r.Alive(); err != nil {
		return err
	}
	if changes.settings != r.settings {
		if _, err := r.rows.ExecContext(ctx, "SET SESSION "+changes.settings); err != nil {
			return err
		}
		r.settings = changes.settings
	}
	if r.format != nil {
		if err := r.binlog(ctx, r.format); err != nil {
			return err
		}
		r.format = nil
		if r.MySQL { // since that event, the session expects an identifier for each transaction
			if _, err := r.rows.ExecContext(ctx, "SET SESSION gtid_next = 'AUTOMATIC'"); err != nil {
				return err
			}
		}
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	err := r.binlog(ctx, changes.events...)
	const notFound, checkViolated, checkOfMariaDB, outOfRange, optionPrevents = 1032, 3819, 4025, 1690, 1290
	refusal, _ := errors.AsType[*mysql.MySQLError](err)
	if refusal == nil {
		return err
	}
	switch refusal.Number {
	case notFound:
		return &UnsupportedError{What: "rows that the server does not find again: " + refusal.Message}
	case checkViolated, checkOfMariaDB, outOfRange:
		return &UnsupportedError{What: "rows for which a generated column or a check fails: " + refusal.Message}
	case optionPrevents:
		if strings.Contains(refusal.Message, "session-mem-used") {
			return &UnsupportedError{What: "rows so long that their replay needs more memory than a session may have"}
		}
	}
	return err
}

// begin begins a transaction at the target, unless one is open.
func (r *Replay) begin(ctx context.Context) error {
	if r.began {
		return nil
	}
	if err := r.Alive(); err != nil {
		return err
	}
	if _, err := r.rows.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	r.began = true
	return nil
}

// binlog has the server apply events.
// https://dev.mysql.com/doc/refman/8.4/en/binlog.html
func (r *Replay) binlog(ctx context.Context, events ...[]byte) error {
	_, err := r.rows.ExecContext(ctx, binlogStatement(events))
	return err
}

// binlogStatement is made in place: events can be very large.
func binlogStatement(events [][]byte) string {
	const before, after = "BINLOG '", "'"
	size := len(before) + len(after)
	for _, e := range events {
		size += base64.StdEncoding.EncodedLen(len(e)) + 1
	}
	var text strings.Builder
	text.Grow(size)
	text.WriteString(before)
	for _, e := range events {
		encoder := base64.NewEncoder(base64.StdEncoding, &text)
		_, _ = encoder.Write(e) // a builder takes everything
		_ = encoder.Close()
		text.WriteByte('\n')
	}
	text.WriteString(after)
	return text.String()
}

func (r *Replay) commit(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	r.endStatement()
	if r.began {
		if err := r.Alive(); err != nil {
			return err
		}
		if _, err := r.rows.ExecContext(ctx, "COMMIT"); err != nil {
			return err
		}
		r.began = false
	}
	if r.Progress != nil {
		r.Progress(r.committed)
	}
	return nil
}
