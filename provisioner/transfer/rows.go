package transfer

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// statementBytes is about how long a statement with rows is. Three of them are in memory for each worker, or, if rows
// are longer, three rows.
const statementBytes = 1 << 20

// gentleStatementBytes is statementBytes for a gentle copy: between two of them, writers of the source have the
// processors and the disk for themselves.
const gentleStatementBytes = 64 << 10

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

// progress is what a copy has done.
type progress struct {
	kept map[string]bool // tables that were there before

	mu          sync.Mutex
	done, total uint64
	written     int64
}

func (c *copier) note(k chunk) {
	c.progress.mu.Lock()
	defer c.progress.mu.Unlock()
	c.progress.done += k.table.bytes / (k.table.bytes/c.options.chunkBytes() + 1)
	if c.options.Progress != nil {
		c.options.Progress(c.progress.done, c.progress.total)
	}
}

// copyRows copies the rows of all tables and compares them. Each worker has a connection to each side; one more
// connection divides the tables.
func (c *copier) copyRows(ctx context.Context) error {
	return c.eachWorker(ctx, func(ctx context.Context, n int, chunks <-chan chunk) error {
		return c.work(ctx, c.snapshot.conns[n], chunks)
	})
}

// divide sends the chunks of all tables.
func (c *copier) divide(ctx context.Context, conn *sql.Conn, chunks chan<- chunk) error {
	for n := range c.snapshot.tables {
		t := &c.snapshot.tables[n]
		if t.sequence {
			continue
		}
		if err := eachChunk(ctx, conn, t, c.options.chunkBytes(), func(k chunk) error {
			// Else a waiting ALTER TABLE would keep the workers from the chunks, and this connection waits for the workers.
			if err := release(ctx, conn); err != nil {
				return err
			}
			select {
			case chunks <- k:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) work(ctx context.Context, from *sql.Conn, chunks <-chan chunk) error {
	to, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(to)
	for k := range chunks {
		if err := c.transfer(ctx, from, to, k); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("table %s: %w", k.table.name, err)
		}
		if err := release(ctx, from); err != nil {
			return err
		}
		c.note(k)
	}
	return nil
}

// gentleRest is how much longer a gentle copy rests than it has worked.
const gentleRest = 3

// longestRest bounds the rest after a statement. The snapshot stays open meanwhile.
const longestRest = 10 * time.Second

// rest rests after work that began at a time, if the copy is gentle.
func (c *copier) rest(ctx context.Context, since time.Time) error {
	if !c.options.Gentle {
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

// transfer makes a chunk of the target equal to that of the source.
func (c *copier) transfer(ctx context.Context, from, to *sql.Conn, k chunk) error {
	var failure error
	present := c.progress.kept[k.table.name] // rows that an interrupted copy has left
	for range transferAttempts {
		since := time.Now()
		if present {
			same, err := c.compare(ctx, from, to, k)
			if err == nil {
				err = c.rest(ctx, since)
			}
			if same || err != nil {
				return err
			}
		}
		var sum rowSum
		failure = c.copyChunk(ctx, from, to, k, present, &sum)
		switch number(failure) {
		case errDeadlock, errLockWaitTimeout:
			continue
		}
		if failure != nil {
			return failure
		}
		since = time.Now()
		written, err := sumOf(ctx, to, k)
		if err == nil {
			err = c.rest(ctx, since)
		}
		if err != nil || !sum.inexact && written == sum.String() {
			return err
		}
		present = true // compare with the source's own sum
	}
	if failure != nil {
		return failure
	}
	return errors.New("the rows that were written are not those that were read")
}

// compare reports whether a chunk is the same on both sides, which both servers find out at the same time.
func (c *copier) compare(ctx context.Context, from, to *sql.Conn, k chunk) (bool, error) {
	query := k.table.selectSum(k)
	type result struct {
		sum string
		err error
	}
	source := make(chan result, 1)
	go func() {
		var r result
		r.err = from.QueryRowContext(ctx, query).Scan(&r.sum)
		source <- r
	}()
	var sum string
	err := to.QueryRowContext(ctx, query).Scan(&sum)
	there := <-source
	if there.err != nil {
		return false, sourceFailure(there.err)
	}
	return err == nil && sum == there.sum, err
}

// copyChunk copies a chunk in one transaction, and adds its rows up. If rows are present, it deletes those of the chunk
// first.
func (c *copier) copyChunk(ctx context.Context, from, to *sql.Conn, k chunk, present bool, sum *rowSum) (err error) {
	if err := c.exec(ctx, to, "BEGIN"); err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			_, rolling := to.ExecContext(ctx, "ROLLBACK")
			err = errors.Join(err, rolling)
		}
	}()
	if present {
		if k.table.versioned {
			return refused(nil, "Table %s has a history, which differs in the copy.", k.table.name)
		}
		if err := c.exec(ctx, to, "DELETE FROM "+k.table.String()+k.table.where(k)); err != nil {
			return err
		}
	}
	if k.table.versioned {
		if err := c.exec(ctx, to, "SET SESSION system_versioning_insert_history = 1"); err != nil {
			return refused(err, "Table %s has a history, which this version of MariaDB cannot copy.", k.table.name)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	statements, reading := make(chan []byte, 1), make(chan error, 1)
	go func() {
		defer close(statements)
		reading <- c.read(ctx, from, k, sum, statements)
	}()
	for statement := range statements {
		since := time.Now()
		if err = c.write(ctx, to, k, statement); err == nil {
			err = c.rest(ctx, since)
		}
		if err != nil {
			cancel(err)
			break
		}
	}
	for range statements { // until the reader has ended
	}
	if readErr := <-reading; err == nil {
		err = readErr
	}
	if err != nil {
		return err
	}
	return c.exec(ctx, to, "COMMIT")
}

// read sends statements that insert the rows of a chunk.
func (c *copier) read(ctx context.Context, from *sql.Conn, k chunk, sum *rowSum, statements chan<- []byte) error {
	return readRows(ctx, from, k, c.options.statementBytes(), sum, func(statement []byte) ([]byte, error) {
		select {
		case statements <- statement:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
}

// readRows calls fn with statements that insert the rows of a chunk. fn returns a buffer for the next one, or nil. sum
// may be nil.
func readRows(ctx context.Context, from *sql.Conn, k chunk, size int, sum *rowSum,
	fn func(statement []byte) (buffer []byte, err error)) error {
	begin := k.table.insert()
	var statement, buffer []byte
	err := eachRow(ctx, from, k.table.selectRows(k), func(values []value) (err error) {
		if sum != nil {
			sum.add(k.table, values)
		}
		switch {
		case statement != nil:
			statement = append(statement, ',')
		case buffer == nil:
			statement = append(make([]byte, 0, size+size/8), begin...)
		default:
			statement = append(buffer[:0], begin...)
		}
		statement = append(statement, '(')
		for n, v := range values {
			if n > 0 {
				statement = append(statement, ',')
			}
			statement = k.table.columns[n].append(statement, v)
		}
		statement = append(statement, ')')
		if len(statement) < size {
			return nil
		}
		buffer, err = fn(statement)
		statement = nil
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return sourceFailure(err)
	}
	if statement == nil {
		return nil
	}
	_, err = fn(statement)
	return err
}

// Errors of values that a strict server refuses, although the source has them.
var valueErrors = []uint16{1264, 1265, 1292, 1366, 1406, 1048, 1364}

// write inserts rows.
func (c *copier) write(ctx context.Context, to *sql.Conn, k chunk, statement []byte) error {
	c.progress.mu.Lock()
	c.progress.written += int64(len(statement))
	tooMuch := c.options.MaxBytes > 0 && c.progress.written > c.options.MaxBytes
	c.progress.mu.Unlock()
	if tooMuch {
		return refused(nil, "The database holds more data than the plan of the copy allows.")
	}
	err := c.exec(ctx, to, string(statement))
	for _, refusal := range valueErrors {
		if number(err) == refusal {
			return c.writeLoosely(ctx, to, statement)
		}
	}
	if c.options.Into != "" && number(err) == errDuplicate {
		return refused(err, "Table %s has rows that differ in the source, but are equal to a unique key of the copy, which "+
			"has another collation. Change the collation of the source to one that both flavours have, such as "+
			"utf8mb4_unicode_ci.",
			k.table.name)
	}
	if number(err) == 1153 || number(err) == 1105 && len(statement) > 2*statementBytes {
		return refused(err, "Table %s has a row that is longer than max_allowed_packet of the copy's server.", k.table.name)
	}
	return err
}

// writeLoosely inserts rows that a strict server refuses.
func (c *copier) writeLoosely(ctx context.Context, to *sql.Conn, statement []byte) error {
	if err := c.exec(ctx, to, looseSession); err != nil {
		return err
	}
	if err := c.exec(ctx, to, string(statement)); err != nil {
		return err
	}
	return c.exec(ctx, to, strictSession)
}
