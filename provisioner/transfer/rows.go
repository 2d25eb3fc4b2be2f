package transfer

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// statementBytes is about how long a statement with rows is. Three of them are in memory for each worker. If rows are
// longer, only one is: see Options.reserve.
const statementBytes = 1 << 20

// gentleStatementBytes is statementBytes for a gentle copy: between two of them, writers of the source have the
// processors and the disk for themselves. A writer that comes in between waits for one at most.
const gentleStatementBytes = 16 << 10

type value = driver.Value

// eachRow calls fn with each row of a query. The values are valid until fn returns. It goes past database/sql, which
// would copy and convert each value.
func eachRow(ctx context.Context, conn *sql.Conn, query string, fn func([]value) error) error {
	return conn.Raw(func(c any) error {
		rows, err := c.(driver.QueryerContext).QueryContext(ctx, query, nil)
		if err != nil {
			return err
		}
		values := make([]value, len(rows.Columns()))
		for {
			err = rows.Next(values)
			if err == nil {
				err = fn(values)
			}
			if errors.Is(err, io.EOF) {
				return rows.Close()
			}
			if err != nil {
				return errors.Join(err, rows.Close())
			}
		}
	})
}

func (t *table) misplaced(err error) error {
	return refused(err, "Table %[1]s has rows in partitions to which they do not belong, as EXCHANGE PARTITION … WITHOUT "+
		"VALIDATION can leave them. Move them with REPAIR TABLE %[1]s, and try again.", t.Name)
}

// copier copies rows.
type copier struct {
	reader
	target
	writing                   sync.RWMutex // held exclusively for chunks that are written with REPLACE
	presentThere, presentHere string       // the ends of the period of rows that are present, on both servers
}

// copyRows copies the rows of all tables and compares them. Each worker has a connection to each side; one more
// connection divides the tables.
func (c *copier) copyRows(ctx context.Context) error {
	return c.eachWorker(ctx, func(ctx context.Context, n int, chunks <-chan chunk) error {
		from := c.snapshot.conns[n]
		to, err := c.connect(ctx)
		if err != nil {
			return err
		}
		defer discard(to)
		return c.each(ctx, from, chunks, func(k chunk) (sum string, err error) { return c.transfer(ctx, from, to, k) })
	})
}

// Errors of a table whose file is missing, discarded or damaged.
var lostTable = []uint16{1034, 1194, 1195, 1812, 1814, 1932}

// failure adds the name of the table to an error.
func (t *table) failure(err error) error {
	if source, ok := errors.AsType[*SourceError](err); ok && slices.Contains(lostTable, number(source)) {
		return refused(err, "The server cannot read table %s (MySQL error %d), because its file is missing, discarded or "+
			"damaged. Mend or drop it, and try again.", t.Name, number(source))
	}
	return fmt.Errorf("table %s: %w", t.Name, err)
}

// gentleRest is how much longer a gentle copy rests than it has worked.
const gentleRest = 3

// longestRest bounds the rest after a statement. The snapshot stays open meanwhile.
const longestRest = 10 * time.Second

// rest rests after work that began at a time, if the copy is gentle.
func (o Options) rest(ctx context.Context, since time.Time) error {
	if !o.Gentle {
		return nil
	}
	timer := time.NewTimer(min(gentleRest*time.Since(since), longestRest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// transferAttempts is how often a chunk is copied before the copy is given up: workers can deadlock.
const transferAttempts = 5

// transfer makes a chunk of the target equal to that of the source, and returns its checksum.
func (c *copier) transfer(ctx context.Context, from, to *sql.Conn, k chunk) (sum string, err error) {
	if k.known != "" {
		sum, err := sumOf(ctx, from, k)
		if err != nil || sum == k.known {
			return sum, sourceFailure(err)
		}
	}
	var failure error
	present := c.kept[k.table.Name] // rows that an interrupted copy has left
	for range transferAttempts {
		since := time.Now()
		if present {
			sum, same, err := c.compare(ctx, from, to, k)
			if err == nil {
				err = c.options.rest(ctx, since)
			}
			if err == nil && same {
				err = c.options.learn(k, sum)
			}
			if same || err != nil {
				return sum, err
			}
		}
		var sum rowSum
		failure = c.copyChunk(ctx, from, to, k, present, &sum)
		if k.again(failure, present) {
			continue
		}
		if failure != nil {
			return "", k.table.duplicates(failure)
		}
		since = time.Now()
		written, err := sumOf(ctx, to, c.inTarget(k))
		if err == nil {
			err = c.options.rest(ctx, since)
		}
		if err == nil && !sum.inexact && written == sum.String() {
			return written, c.options.learn(k, written)
		}
		if err != nil {
			return "", err
		}
		present = true // compare with the source's own sum
	}
	if failure != nil {
		return "", failure
	}
	return "", cmp.Or(k.dependsOnSession(), errors.New("the rows that were written are not those that were read"))
}

// duplicates refuses a table whose copy lacks rows, because they have the same unique key there as others.
func (t *table) duplicates(err error) error {
	if number(err) != errDuplicate && err != nil {
		return err
	}
	return refused(err, "Table %s has rows with equal values of a unique key in the copy (MySQL error %d). A generated "+
		"column of the key may depend on a setting of the session, such as the time zone.", t.Name, errDuplicate)
}

// dependsOnSession is the refusal of a table whose rows differ in the copy although they were written as they were
// read; nil if all of its values are written.
func (k chunk) dependsOnSession() error {
	t := k.table
	at := slices.IndexFunc(t.Columns, func(c column) bool { return c.Stored })
	switch {
	case k.replaces:
		return t.duplicates(nil)
	case at < 0:
		return nil
	}
	return refused(nil, "Table %s has rows with stored values of generated columns, such as %s, that the copy's server "+
		"does not compute again. They may depend on a setting of the session that wrote them, such as the time zone or the "+
		"SQL mode. Write the expressions so that they do not, and compute the values again.", t.Name, t.Columns[at].Name)
}

// retriable reports whether an error of a chunk may not occur in the next attempt.
func retriable(err error) bool {
	n := number(err)
	return n == errDeadlock || n == errLockWaitTimeout || n == errDuplicate
}

// again reports whether a chunk that could not be written is to be written once more. If the target had rows before,
// that is done with REPLACE: a unique key of one of the rows may be that of a row in another chunk of the target,
// because the value has moved in the source meanwhile. That other chunk still differs from the source, and is written
// later. may says that there were rows, and that equal keys are no fault of another collation.
func (k *chunk) again(failure error, may bool) bool {
	if !retriable(failure) || number(failure) == errDuplicate && (k.replaces || !may) {
		return false
	}
	k.replaces = may
	return true
}

// takeTurn lets a chunk with REPLACE be written alone: it waits for rows of other chunks, and these would wait for it.
func (c *copier) takeTurn(replaces bool) (end func()) {
	if replaces {
		c.writing.Lock()
		return c.writing.Unlock
	}
	c.writing.RLock()
	return c.writing.RUnlock
}

// compare reports whether a chunk is the same on both sides, which both servers find out at the same time. sum is the
// target's.
func (c *copier) compare(ctx context.Context, from, to *sql.Conn, k chunk) (sum string, same bool, err error) {
	type result struct {
		sum string
		err error
	}
	source := make(chan result, 1)
	go func() {
		var r result
		r.sum, r.err = sumOf(ctx, from, k)
		source <- r
	}()
	sum, err = sumOf(ctx, to, c.inTarget(k))
	there := <-source
	if there.err != nil {
		return "", false, sourceFailure(there.err)
	}
	return sum, err == nil && sum == there.sum, err
}

// inTarget is a chunk as the target is asked for it: its rows that are present end as those of the source, so that the
// sums are the same.
func (c *copier) inTarget(k chunk) chunk {
	if !k.table.Versioned || c.presentThere == c.presentHere {
		return k
	}
	t := *k.table
	t.Columns = slices.Clone(t.Columns)
	end := &t.Columns[len(t.Columns)-1]
	end.summed = fmt.Sprintf("IF(%[1]s = '%[2]s', '%[3]s', %[1]s)", quoteName(end.Name), c.presentHere, c.presentThere)
	k.table = &t
	return k
}

// copyChunk copies a chunk in one transaction, and adds its rows up. If rows are present, it deletes those of the chunk
// first.
func (c *copier) copyChunk(ctx context.Context, from, to *sql.Conn, k chunk, present bool, sum *rowSum) (err error) {
	longest, release, err := c.options.reserve(ctx, from, k, timesInCopy)
	if err != nil {
		return err
	}
	defer release()
	defer c.takeTurn(k.replaces)()
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = errors.Join(err, rollBack(ctx, to))
		}
	}()
	if err := c.begin(ctx, to, k, present); err != nil {
		return err
	}
	insert := c.insert
	if c.options.Gentle || longest > 0 { // several long statements at the same time would need more memory
		insert = c.insertInTurn
	}
	if err := insert(ctx, from, to, k, sum); err != nil {
		return err
	}
	return c.exec(ctx, to, "COMMIT")
}

// begin begins the transaction of a chunk of the target. If rows are present, it deletes those of the chunk.
func (c *copier) begin(ctx context.Context, to *sql.Conn, k chunk, present bool) error {
	t := k.table
	switch {
	case t.Versioned && present:
		return refused(nil, "Table %s has a history, which differs in the copy.", t.Name)
	case t.Versioned:
		if err := c.exec(ctx, to, "SET SESSION system_versioning_insert_history = 1"); err != nil {
			return refused(err, "Table %s has a history, which this version of MariaDB cannot copy.", t.Name)
		}
	}
	if err := c.exec(ctx, to, "BEGIN"); err != nil || !present {
		return err
	}
	return c.exec(ctx, to, "DELETE FROM "+t.String()+t.where(k))
}

// rollBack also undoes the settings with which some rows of the chunk are written.
func rollBack(ctx context.Context, to *sql.Conn) error {
	_, err := to.ExecContext(ctx, "ROLLBACK")
	_, resetting := to.ExecContext(ctx, "SET SESSION "+utcSession)
	return cmp.Or(err, resetting)
}

// insert reads the rows of a chunk and writes them at the same time.
func (c *copier) insert(ctx context.Context, from, to *sql.Conn, k chunk, sum *rowSum) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	statements, reading := make(chan []byte, 1), make(chan error, 1)
	go func() {
		defer close(statements)
		reading <- c.options.read(ctx, from, k, sum, statements)
	}()
	for statement := range statements {
		if err = c.write(ctx, to, k, statement); err != nil {
			if !retriable(err) { // else the next attempt needs the reader's connection, and with it the snapshot
				cancel(err)
			}
			break
		}
	}
	for range statements { // until the reader has ended
	}
	if readErr := <-reading; err == nil || retriable(err) && readErr != nil {
		err = readErr
	}
	return err
}

// insertInTurn reads some rows, writes them and rests, and so on: two processors are not busy at the same time.
func (c *copier) insertInTurn(ctx context.Context, from, to *sql.Conn, k chunk, sum *rowSum) error {
	var failure error
	since := time.Now()
	err := readRows(ctx, from, k, c.options.statementBytes(), sum, func(statement []byte) ([]byte, error) {
		if failure = c.write(ctx, to, k, statement); failure == nil {
			failure = c.options.rest(ctx, since)
		}
		since = time.Now()
		return statement, failure
	})
	return cmp.Or(failure, err)
}

// read sends statements that insert the rows of a chunk.
func (o Options) read(ctx context.Context, from *sql.Conn, k chunk, sum *rowSum, statements chan<- []byte) error {
	return readRows(ctx, from, k, o.statementBytes(), sum, func(statement []byte) ([]byte, error) {
		select {
		case statements <- statement:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
}

// statementValues is how many values a statement has at most: for each, a server needs some hundred bytes of memory,
// and the memory of a session is limited.
const statementValues = 1 << 15

// readRows calls fn with statements that insert the rows of a chunk. fn returns a buffer for the next one, or nil. sum
// may be nil.
func readRows(ctx context.Context, from *sql.Conn, k chunk, size int, sum *rowSum,
	fn func(statement []byte) (buffer []byte, err error)) error {
	r := rowReader{chunk: k, size: size, sum: sum, fn: fn}
	err := r.readAll(ctx, from)
	switch {
	case r.failure != nil:
		return r.failure // is not one of the source
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return sourceFailure(err)
}

// checkRow refuses a row that MariaDB does not insert: one of a versioned table that ended when it began, or before,
// which it keeps if a session has set its time, and one with NULL instead of a number, which INSERT IGNORE leaves.
func (t *table) checkRow(values []value) error {
	if t.counted > 0 && values[t.counted-1] == nil {
		return refused(nil, "Table %s has a row with NULL in the column %s, which has AUTO_INCREMENT: MariaDB would write a "+
			"number instead. Write a number or remove the row, and try again.", t.Name, t.Columns[t.counted-1].Name)
	}
	if !t.Versioned {
		return nil
	}
	from, isText := values[len(values)-2].([]byte)
	to, _ := values[len(values)-1].([]byte)
	if !isText || bytes.Compare(from, to) < 0 {
		return nil
	}
	return refused(nil, "Table %[1]s has a former row that ended when it began, or before, as SET timestamp can leave "+
		"it. MariaDB does not insert it again. Remove the history with DELETE HISTORY FROM %[1]s, and try again.", t.Name)
}

// rowReader reads the rows of a chunk.
type rowReader struct {
	chunk
	size              int
	sum               *rowSum
	fn                func(statement []byte) (buffer []byte, err error)
	statement, buffer []byte
	values            int               // in the statement
	with              map[string]string // see sessionValues.writtenWith
	failure           error             // of fn
}

func (r *rowReader) readAll(ctx context.Context, from *sql.Conn) (err error) {
	if r.table.session == nil {
		return r.read(ctx, from, "")
	}
	if r.with, err = r.table.session.writtenWith(ctx, from, r.chunk); err != nil {
		return err
	}
	if len(r.with) > 0 && r.sum != nil {
		r.sum.inexact = true // times are read in several zones
	}
	if err := r.read(ctx, from, ""); err != nil {
		return err
	}
	settings := slices.Compact(slices.Sorted(maps.Values(r.with)))
	for _, setting := range append(settings, utcSession) {
		set := "SET SESSION " + setting
		if _, err := from.ExecContext(ctx, set); err != nil {
			return err
		}
		if len(settings) > 0 { // what writes the rows needs the setting, too
			if _, r.failure = r.fn([]byte(set)); r.failure != nil {
				return r.failure
			}
		}
		if setting != utcSession {
			if err := r.read(ctx, from, setting); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads the rows that were written with a setting, or, if that is "", with none.
func (r *rowReader) read(ctx context.Context, from *sql.Conn, setting string) error {
	query := r.table.selectRows(r.chunk, "")
	if len(r.with) > 0 {
		query = r.table.selectRows(r.chunk, ","+r.table.rowHash())
	}
	begin, columns := r.table.insert(), r.table.Columns
	if err := eachRow(ctx, from, query, func(values []value) error {
		if len(values) > len(columns) && r.with[hashOf(values[len(columns)])] != setting {
			return nil
		}
		values = values[:len(columns)]
		if err := r.table.checkRow(values); err != nil {
			return err
		}
		if r.sum != nil {
			r.sum.add(r.table, values)
		}
		switch {
		case r.statement != nil:
			r.statement = append(r.statement, ',')
		case r.buffer == nil:
			r.statement = append(make([]byte, 0, r.size+r.size/8), begin...)
		default:
			r.statement = append(r.buffer[:0], begin...)
		}
		if n := length(values); n > statementBytes { // to grow by and by would take more memory than reserved
			r.statement = slices.Grow(r.statement, 2*n)
		}
		r.statement = append(r.statement, '(')
		first := true
		for n, v := range values {
			if columns[n].Stored {
				continue
			}
			if !first {
				r.statement = append(r.statement, ',')
			}
			r.statement, first = columns[n].append(r.statement, v), false
		}
		r.statement = append(r.statement, ')')
		if r.values += max(len(values), 1); len(r.statement) < r.size && r.values < statementValues {
			return nil
		}
		return r.flush()
	}); err != nil {
		return err
	}
	return r.flush()
}

// length is that of the values whose length can differ.
func length(values []value) (n int) {
	for _, v := range values {
		if text, ok := v.([]byte); ok {
			n += len(text)
		}
	}
	return n
}

// flush ends the statement, if there is one.
func (r *rowReader) flush() error {
	if r.statement == nil {
		return nil
	}
	r.buffer, r.failure = r.fn(r.statement)
	r.statement, r.values = nil, 0
	return r.failure
}

// Errors of values that a strict server refuses, although the source has them. The last four are of indexes on
// expressions.
var valueErrors = []uint16{1264, 1265, 1292, 1301, 1366, 1406, 1048, 1364, 3751, 3752, 3903, 3904}

// Errors of rows for which an expression of their table fails, with the settings of this session: its result is out of
// range, a check does not hold, a text is no GeoJSON, or a geometry must not be NULL.
var expressionErrors = []uint16{1690, errCheckViolated, 3070, 3071, 3072, 3073, 3673}

// write inserts rows with one statement.
func (c *copier) write(ctx context.Context, to *sql.Conn, k chunk, statement []byte) error {
	c.progress.mu.Lock()
	c.progress.written += int64(len(statement))
	tooMuch := c.options.MaxBytes > 0 && c.progress.written > c.options.MaxBytes
	c.progress.mu.Unlock()
	if tooMuch {
		return refused(nil, "The database holds more data than the plan of the copy allows.")
	}
	text := string(statement)
	if rest, inserts := strings.CutPrefix(text, "INSERT"); inserts && k.replaces {
		text = "REPLACE" + rest
	}
	if k.table.Versioned { // the end is the last value; within strings, quotes follow backslashes
		text = strings.ReplaceAll(text, ",'"+c.presentThere+"')", ",'"+c.presentHere+"')")
	}
	tooLong, err := isTooLong(ctx, to, text)
	if err == nil && !tooLong {
		err = c.exec(ctx, to, text)
	}
	if slices.Contains(valueErrors, number(err)) {
		err = c.writeLoosely(ctx, to, text)
	}
	if slices.Contains(slices.Concat(expressionErrors, valueErrors), number(err)) || isDataException(err) {
		return k.table.refusedRow(err)
	}
	if number(err) == errNoPartition {
		return k.table.misplaced(err)
	}
	if number(err) == errConnectionMemory {
		return refusedBySettings(err, "Table %s has rows for which the copy's server allows a connection too little memory.",
			k.table.Name)
	}
	if tooLong || number(err) == 1153 || number(err) == 1105 && len(statement) > 2*statementBytes {
		return refusedBySettings(err, "Table %s has a row that is longer than max_allowed_packet of the copy's server.",
			k.table.Name)
	}
	return err
}

// evaluated matches the expressions of a definition that a server evaluates for each row: those of generated columns,
// checks, keys and partitions.
var evaluated = regexp.MustCompile(`GENERATED ALWAYS AS|CHECK \(|\(\(|PARTITION BY`)

// refusedRow is the error for a row of which the server refuses a value that the source has.
func (t *table) refusedRow(err error) error {
	if create, _ := mask(t.Create); !evaluated.MatchString(create) {
		return refused(err, "Table %s has a row that the copy's server does not take (MySQL error %d). Ask your operator "+
			"for the server's message in the broker's log, change the row, and try again.", t.Name, number(err))
	}
	return refused(err, "Table %s has a row for which a generated column or a check%s fails in the copy (MySQL error "+
		"%d). It may depend on a setting of the session, such as the SQL mode. Write the expression so that it does not.",
		t.Name, checkOf(err), number(err))
}

// isDataException reports whether a server refused a value, by the class of the SQLSTATE.
func isDataException(err error) bool {
	refusal, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && string(refusal.SQLState[:2]) == "22"
}

// violatedCheck finds the name of a check in MySQL's message.
var violatedCheck = regexp.MustCompile(`'(.+)'`)

func checkOf(err error) string {
	refusal, _ := errors.AsType[*mysql.MySQLError](err)
	if found := violatedCheck.FindStringSubmatch(refusal.Message); found != nil && refusal.Number == errCheckViolated {
		return ", " + found[1] + ","
	}
	return ""
}

// isTooLong reports whether a statement is longer than the server accepts. The server would reset the connection while
// the statement is sent, so that its error 1153 can be lost.
func isTooLong(ctx context.Context, to *sql.Conn, statement string) (bool, error) {
	if len(statement) <= statementBytes {
		return false, nil
	}
	var most int
	err := to.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&most)
	return err == nil && len(statement) >= most, err
}

// writeLoosely inserts rows that a strict server refuses.
func (c *copier) writeLoosely(ctx context.Context, to *sql.Conn, statement string) error {
	if err := c.exec(ctx, to, looseSession); err != nil {
		return err
	}
	if err := c.exec(ctx, to, statement); err != nil {
		return err
	}
	return c.exec(ctx, to, strictSession)
}
