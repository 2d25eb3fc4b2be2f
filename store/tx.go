package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Tx is a transaction, for one goroutine. What it writes is held back until it reads something or commits, and goes out
// with that in one round trip; an error of a write is that of InTx.
type Tx struct {
	conn  *pgxpool.Conn
	keys  *Keyring
	begun bool // PostgreSQL has been told
	held  []statement
}

// statement is one that was not sent yet. done, which may be nil, gets its result.
type statement struct {
	doing string // for errors
	sql   string
	args  []any
	done  func(pgx.Rows) error
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
	t.held = append(t.held, statement{doing: doing, sql: sql, args: args})
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
	t.held = append(t.held, statement{"", sql, args, func(rows pgx.Rows) (err error) {
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
	t.held = append(t.held, statement{"", sql, args, func(rows pgx.Rows) (err error) {
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
	if len(t.held) == 0 {
		return nil
	}
	return t.send(ctx, statementTime, &pgx.Batch{})
}

// send sends a batch with what is held back at its end, and reads the answers.
func (t *Tx) send(ctx context.Context, limit time.Duration, batch *pgx.Batch) (err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := t.held
	t.held = nil
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
