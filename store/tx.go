package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Tx is a transaction, for one goroutine. What it writes is held back until it reads something or commits, and goes out
// with that in one round trip; an error of a write is that of InTx.
type Tx struct {
	conn   *pgxpool.Conn
	keys   *Keyring
	begun  bool // PostgreSQL has been told
	unsent []statement

	hold   bool  // Begin has found one
	failed error // why the transaction must not commit
	ends   int64 // the task that this transaction ends, if its lease is held: see Finish. 0: none
}

// statement is one that was not sent yet. done, which may be nil, gets its result.
type statement struct {
	doing string // for errors
	sql   string
	args  []any
	done  func(pgx.Rows) error

	heedsLease bool // it does nothing where the lease of the task that its transaction ends was lost
}

// InTx runs fn in a transaction that commits if fn returns nil and rolls back otherwise. After ErrUnavailable it may
// have done either. The whole takes 10 seconds at most; what fn does beside the transaction it has to bound itself, to
// less than the 4 seconds that others wait for a lock if it holds one.
func (s *Store) InTx(ctx context.Context, fn func(*Tx) error) error {
	limited, cancel := context.WithTimeout(ctx, txTime)
	defer cancel()
	conn, err := s.acquire(limited)
	if err != nil {
		return explain(ctx, err)
	}
	t := &Tx{conn: conn, keys: s.keys}
	defer t.end()
	if err := fn(t); err != nil {
		return explain(ctx, err)
	}
	if t.failed != nil {
		return t.failed
	}
	return explain(ctx, t.commit(limited))
}

// acquire takes a connection from the pool; it is answered as soon as a statement would be.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	return acquire(limited, s.pool)
}

// write adds a statement whose result does not matter.
func (t *Tx) write(doing, sql string, args ...any) {
	t.unsent = append(t.unsent, statement{doing: doing, sql: sql, args: args})
}

// change adds a statement that may be a part of a task's outcome. `:allowed` in its condition is false if the
// transaction was to end a task and has not, because the lease was lost (see Finish), else true.
func (t *Tx) change(doing, sql string, args ...any) {
	allowed := "true"
	if t.ends != 0 {
		args = append(args, t.ends)
		// This transaction has written the row of the task.
		allowed = fmt.Sprintf("EXISTS (SELECT FROM task WHERE id = $%d AND xmin = pg_current_xact_id()::xid)", len(args))
	}
	sql = strings.Replace(sql, ":allowed", allowed, 1)
	t.unsent = append(t.unsent, statement{doing: doing, sql: sql, args: args, heedsLease: true})
}

// read sends what is held back, then a query, and waits for the answer. v gets its only row; without one it returns
// ErrNotFound.
func read[T any](ctx context.Context, t *Tx, limit time.Duration, v *T, scan pgx.RowToFunc[T], sql string,
	args ...any) error {
	found := expectRow(t, v, scan, sql, args...)
	if err := t.flush(ctx, limit); err != nil {
		return err
	}
	if !*found {
		return ErrNotFound
	}
	return nil
}

// expectRow adds a query that yields one row or none. When it is answered, v and found tell.
func expectRow[T any](t *Tx, v *T, scan pgx.RowToFunc[T], sql string, args ...any) (found *bool) {
	found = new(bool)
	t.unsent = append(t.unsent, statement{sql: sql, args: args, done: func(rows pgx.Rows) (err error) {
		*v, err = pgx.CollectExactlyOneRow(rows, scan)
		if *found = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	}})
	return found
}

// expectRows adds a query that yields any number of rows. When it is answered, all has them.
func expectRows[T any](t *Tx, all *[]T, scan pgx.RowToFunc[T], sql string, args ...any) {
	t.unsent = append(t.unsent, statement{sql: sql, args: args, done: func(rows pgx.Rows) (err error) {
		*all, err = pgx.CollectRows(rows, scan)
		return err
	}})
}

// flush sends what is held back, after BEGIN if it is the first, in one round trip of at most limit.
func (t *Tx) flush(ctx context.Context, limit time.Duration) error {
	batch := &pgx.Batch{}
	if !t.begun {
		batch.Queue("BEGIN")
		t.begun = true
	}
	return t.send(ctx, limit, batch)
}

// commit sends what is held back with COMMIT. If that is all there ever was, PostgreSQL takes it for a transaction
// without being told so.
// https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-PIPELINING
func (t *Tx) commit(ctx context.Context) error {
	if t.begun {
		t.write("commit", "COMMIT")
	}
	if len(t.unsent) == 0 {
		return nil
	}
	return t.send(ctx, statementTime, &pgx.Batch{})
}

// send sends a batch with what is held back at its end, and reads the answers.
func (t *Tx) send(ctx context.Context, limit time.Duration, batch *pgx.Batch) (err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := t.unsent
	t.unsent = nil
	for _, s := range sent {
		batch.Queue(s.sql, s.args...)
	}
	results := t.conn.SendBatch(limited, batch)
	defer func() {
		if closing := results.Close(); err == nil {
			err = explain(ctx, closing) // a commit that failed, or whose answer is lost
		}
	}()
	for range batch.Len() - len(sent) {
		if _, err := results.Exec(); err != nil {
			return explain(ctx, err)
		}
	}
	for _, s := range sent {
		if err := s.take(results); err != nil {
			return explain(ctx, err)
		}
	}
	return nil
}

// Alive returns an error if the transaction, and with it the locks that it took, is lost.
func (t *Tx) Alive(ctx context.Context) error {
	t.write("ask for an answer", "SELECT 1")
	if err := t.flush(ctx, statementTime); err != nil {
		return fmt.Errorf("the transaction is lost: %w", err)
	}
	return nil
}

// take reads the statement's answer.
func (s statement) take(results pgx.BatchResults) error {
	if s.done != nil {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		return s.done(rows)
	}
	_, err := results.Exec()
	switch {
	case err == nil:
		return nil
	case s.doing == waitForID && locked(err):
		return fmt.Errorf("%w: %w", errIDLocked, err)
	}
	return fmt.Errorf("%s: %w", s.doing, err)
}

// end gives the connection back, outside of a transaction.
func (t *Tx) end() {
	defer t.conn.Release() // which closes a connection that is still inside of one
	if t.conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), statementTime)
	defer cancel()
	_, _ = t.conn.Exec(ctx, "ROLLBACK")
}

// refusal is the SQLSTATE with which PostgreSQL refused a statement, or "".
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func refusal(err error) string {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code
	}
	return ""
}
