package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrUnavailable is in the chain of every error that says that PostgreSQL cannot be reached, does not answer, or cannot
// serve just now. What was under way has taken effect or not: a commit's answer may be all that was lost.
var ErrUnavailable = errors.New("store: PostgreSQL is unavailable")

// ErrLocked is in the chain of the error of a statement that waited for a lock in vain. Its transaction has changed
// nothing.
var ErrLocked = errors.New("store: another transaction holds the lock")

const (
	// statementTime bounds the wait for the answer to one statement. It is far more than any of them takes, and far
	// less than platforms wait.
	statementTime = 5 * time.Second
	// txTime bounds a transaction from its BEGIN to the answer to its COMMIT.
	txTime = 2 * statementTime
	// lockTime is when PostgreSQL gives up a wait for a lock, before the broker gives up the statement: it is told apart
	// from an outage.
	lockTime = 4 * time.Second
	// rowLockTime bounds a statement that locks a row. Where several wait, each waits twice: for its turn to be the
	// next, and for the transaction that holds the row.
	rowLockTime = 2*lockTime + time.Second
	// silenceTime is when PostgreSQL ends a transaction whose broker says nothing more, because it is paused or cut
	// off: its locks would keep all other brokers waiting.
	silenceTime = 10 * time.Second
)

// limitWaits has PostgreSQL bound how long it waits for locks and for the broker, and not compile statements: where
// tables are large, it takes a second or more for what then takes a millisecond.
// https://www.postgresql.org/docs/current/runtime-config-client.html, https://www.postgresql.org/docs/current/jit.html
func limitWaits(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, fmt.Sprintf(
		"SET lock_timeout = %d; SET idle_in_transaction_session_timeout = %d; SET jit = off",
		lockTime.Milliseconds(), silenceTime.Milliseconds()))
	return err
}

// bounded is a pool whose statements are answered in statementTime or fail with ErrUnavailable. Queries: see oneRow and
// allRows.
type bounded struct{ pool *pgxpool.Pool }

func (b bounded) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	limited, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	conn, err := acquire(limited, b.pool)
	if err != nil {
		return pgconn.CommandTag{}, explain(ctx, err)
	}
	defer conn.Release()
	tag, err := conn.Exec(limited, sql, args...)
	return tag, explain(ctx, err)
}

// acquire takes a connection from a pool. Where that would open another one, and PostgreSQL takes no more just now, one
// of those that are open may become free soon: killed brokers leave theirs behind for a moment, and their platforms'
// requests come to the others.
func acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	for {
		conn, err := pool.Acquire(ctx)
		if code := refusal(err); code != tooManyConnections && code != startingUp {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(acquirePause):
		}
	}
}

const (
	tooManyConnections = "53300" // SQLSTATE
	startingUp         = "57P03" // or shutting down
	acquirePause       = 20 * time.Millisecond
)

// explain marks the error of a statement with ErrUnavailable or ErrLocked if it is one. ctx is the caller's:
// when that has ended, the error says nothing about PostgreSQL.
func explain(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrLocked) ||
		errors.Is(err, ErrHeld):
		return err
	case locked(err):
		return fmt.Errorf("%w: %w", ErrLocked, err)
	case outage(err):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

func locked(err error) bool {
	return refusal(err) == "55P03" // lock_not_available
}

// outages are the classes of SQLSTATE, and single ones, that say "not now" rather than "not so".
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var outages = []string{
	"08",    // connection exception
	"25006", // read-only transaction: the server has become a standby, or is about to
	"25P02", // an earlier statement of the transaction failed
	"25P03", // the transaction was ended after silenceTime
	"40",    // transaction rollback
	"53",    // insufficient resources
	"57",    // operator intervention
}

func outage(err error) bool {
	if _, failed := errors.AsType[*pgconn.ConnectError](err); failed {
		return true
	}
	if code := refusal(err); code != "" {
		return slices.ContainsFunc(outages, func(o string) bool { return strings.HasPrefix(code, o) })
	}
	if _, broken := errors.AsType[net.Error](err); broken {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}
