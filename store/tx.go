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

// Tx is a transaction, for one goroutine. Its writes are queued, and sent in one round trip with the next read or the
// commit. So InTx returns the error of a write.
type Tx struct {
	conn   *pgxpool.Conn
	keys   *Keyring
	begun  bool // BEGIN was sent
	plans  bool // genericPlans was sent
	unsent []statement

	failover *failover
	begins   []*Task // that the transaction records

	actor  Actor // of what names nobody
	hold   bool  // Begin has found one
	failed error // why the transaction must not commit
	ends   int64 // the task that this transaction ends, if its lease is held: see Finish. 0: none
}

// statement is a queued statement. done, which may be nil, gets its result.
type statement struct {
	doing string // for errors
	sql   string
	args  []any
	done  func(pgx.Rows) error

	heedsLease bool // it changes nothing if the transaction is to end a task whose lease was lost
}

// genericPlans keeps PostgreSQL from planning the statements of an operation again for each operation, which takes
// longer than executing them: their tables are found by id, whatever the parameters are.
// https://www.postgresql.org/docs/current/runtime-config-query.html#GUC-PLAN-CACHE-MODE
const genericPlans = "SELECT set_config('plan_cache_mode', 'force_generic_plan', true)"

// InTx runs fn in a transaction that commits if fn returns nil and rolls back otherwise. After ErrUnavailable, either
// may have happened. The transaction takes at most 10 seconds. Others wait 4 seconds for a lock, so that an fn that
// holds one must bound what else it does to less.
func (s *Store) InTx(ctx context.Context, fn func(*Tx) error) error { return s.inTx(ctx, fn) }

func (s *database) inTx(ctx context.Context, fn func(*Tx) error) error {
	limited, cancel := context.WithTimeout(ctx, txTime)
	defer cancel()
	conn, err := s.acquire(limited)
	if err != nil {
		return explain(ctx, err)
	}
	t := &Tx{conn: conn, keys: s.keys, failover: &s.failover, actor: s.actor}
	defer t.end()
	if err := fn(t); err != nil {
		return explain(ctx, err)
	}
	if t.failed != nil {
		return t.failed
	}
	if err := explain(ctx, t.commit(limited)); err != nil {
		return err
	}
	return t.committed()
}

// committed remembers the tasks that the transaction has recorded. What was committed on a server that was replaced
// meanwhile may be lost, and so is an ErrUnavailable.
func (t *Tx) committed() error {
	if err := t.failover.current(t.conn.Conn()); err != nil {
		return err
	}
	for _, task := range t.begins {
		t.failover.recorded(*task)
	}
	return nil
}

// acquire takes a connection from the pool. It fails after as long as a statement would.
func (s *database) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	return acquire(limited, s.pool)
}

// Fail keeps the transaction from committing; InTx returns err.
func (t *Tx) Fail(err error) { t.failed = err }

// write queues a statement without a result.
func (t *Tx) write(doing, sql string, args ...any) {
	t.unsent = append(t.unsent, statement{doing: doing, sql: sql, args: args})
}

// change queues a statement that may be part of a task's outcome. `:allowed` in its condition is false if the
// transaction is to end a task whose lease was lost (see Finish), else true.
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

// read sends the queued statements and a query, and stores its only row in v. Without a row it returns ErrNotFound.
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

// expectRow queues a query of at most one row, which v gets. found says whether there was one.
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

// expectRows queues a query of any number of rows, which all gets.
func expectRows[T any](t *Tx, all *[]T, scan pgx.RowToFunc[T], sql string, args ...any) {
	t.unsent = append(t.unsent, statement{sql: sql, args: args, done: func(rows pgx.Rows) (err error) {
		*all, err = pgx.CollectRows(rows, scan)
		return err
	}})
}

// flush sends the queued statements in one round trip of at most limit, after BEGIN if they are the first.
func (t *Tx) flush(ctx context.Context, limit time.Duration) error {
	batch := &pgx.Batch{}
	if !t.begun {
		batch.Queue("BEGIN")
		t.begun = true
	}
	return t.send(ctx, limit, batch)
}

// commit sends the queued statements and COMMIT. If nothing was sent before, PostgreSQL executes the pipeline as one
// transaction without BEGIN and COMMIT.
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

// send sends a batch, followed by the queued statements, and reads the results.
func (t *Tx) send(ctx context.Context, limit time.Duration, batch *pgx.Batch) (err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := t.unsent
	t.unsent = nil
	if !t.plans {
		batch.Queue(genericPlans)
		t.plans = true
	}
	for _, s := range sent {
		batch.Queue(s.sql, s.args...)
	}
	results := t.conn.SendBatch(limited, batch)
	defer func() {
		if closing := results.Close(); err == nil {
			err = explain(ctx, closing) // a commit that failed, or whose response was lost
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

// Alive returns an error if the transaction was lost, and its locks with it.
func (t *Tx) Alive(ctx context.Context) error {
	t.write("ping", "SELECT 1")
	if err := t.flush(ctx, statementTime); err != nil {
		return fmt.Errorf("the transaction is lost: %w", err)
	}
	return nil
}

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

// end returns the connection to the pool, outside of a transaction.
func (t *Tx) end() {
	defer t.conn.Release() // it closes a connection that is still in a transaction
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
