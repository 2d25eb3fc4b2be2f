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
// serve now. The statement may have taken effect: perhaps only the response to a commit was lost.
var ErrUnavailable = errors.New("store: PostgreSQL is unavailable")

// ErrLocked is in the chain of the error of a statement that waited too long for a lock. Its transaction has changed
// nothing.
var ErrLocked = errors.New("store: another transaction holds the lock")

// ErrText is in the chain of the error of a statement with a text that PostgreSQL cannot store, such as one with
// U+0000. Its transaction has changed nothing.
var ErrText = errors.New("store: PostgreSQL cannot store a character")

const (
	// statementTime bounds one statement. It is far more than any takes, and far less than platforms wait.
	statementTime = 5 * time.Second
	// txTime bounds a transaction, BEGIN and COMMIT included.
	txTime = 2 * statementTime
	// lockTime bounds a wait for a lock in PostgreSQL. It is less than statementTime, so that such a wait is not mistaken
	// for an outage.
	lockTime = 4 * time.Second
	// rowLockTime bounds a statement that locks a row. If several wait, each waits twice: to be the next in the queue, and
	// for the transaction that holds the row.
	rowLockTime = 2*lockTime + time.Second
	// silenceTime is when PostgreSQL ends a transaction whose broker is silent, because it is paused or cut off. Its locks
	// would keep all other brokers waiting.
	silenceTime = 10 * time.Second
)

// limitWaits has PostgreSQL bound its waits for locks and for the broker, and not compile statements: for large tables,
// it compiles for a second or more what then runs for a millisecond.
// https://www.postgresql.org/docs/current/runtime-config-client.html, https://www.postgresql.org/docs/current/jit.html
func limitWaits(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, fmt.Sprintf(
		"SET lock_timeout = %d; SET idle_in_transaction_session_timeout = %d; SET jit = off",
		lockTime.Milliseconds(), silenceTime.Milliseconds()))
	return err
}

// run runs a statement on a connection of a pool, and returns how many rows it changed. It takes at most statementTime,
// or fails with ErrUnavailable. For queries, see oneRow and allRows.
func (s *database) run(ctx context.Context, pool *pgxpool.Pool, sql string, args ...any) (changed int64, err error) {
	limited, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	conn, err := acquire(limited, pool)
	if err != nil {
		return 0, explain(ctx, err)
	}
	defer conn.Release()
	tag, err := conn.Exec(limited, sql, args...)
	if err == nil {
		err = s.failover.current(conn.Conn())
	}
	return tag.RowsAffected(), explain(ctx, err)
}

// exec runs a statement without a result.
func (s *database) exec(ctx context.Context, sql string, args ...any) error {
	_, err := s.run(ctx, s.pool, sql, args...)
	return err
}

// change runs a statement that is to change a row. If it changes none, it returns none.
func (s *database) change(ctx context.Context, none error, sql string, args ...any) error {
	changed, err := s.run(ctx, s.pool, sql, args...)
	if err == nil && changed == 0 {
		return none
	}
	return err
}

// acquire takes a connection from a pool. If a new one would have to be opened and PostgreSQL accepts no more now, it
// tries again: killed brokers leave connections behind for a moment, while their platforms' requests come to the
// others.
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

// errOldSchema is in the chain of an error about a missing table or column.
var errOldSchema = errors.New("the schema is older than this program, and `mysql-broker migrate` brings it up to " +
	"date, or search_path leads elsewhere")

// explain wraps the error of a statement in ErrUnavailable, ErrLocked, ErrText or errOldSchema if it is one. ctx is the
// caller's: once that has ended, the error says nothing about PostgreSQL.
func explain(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrLocked) ||
		errors.Is(err, ErrText) || errors.Is(err, errOldSchema) || errors.Is(err, ErrHeld):
		return err
	case locked(err):
		return fmt.Errorf("%w: %w", ErrLocked, err)
	case outage(err):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	switch refusal(err) {
	case "22021", "22P05": // character_not_in_repertoire; untranslatable_character, of jsonb
		return fmt.Errorf("%w: %w", ErrText, err)
	case "42P01", "42703": // undefined_table; undefined_column
		return fmt.Errorf("%w: %w", errOldSchema, err)
	}
	return err
}

func locked(err error) bool {
	return refusal(err) == "55P03" // lock_not_available
}

// outages are SQLSTATEs and classes of them that say that a statement cannot be executed now, but may be later.
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

// inherited are SQLSTATEs of statements that may fail because of settings of the role or the database which a
// connection has had since it was opened. Connections are opened again after them, as somebody may have changed the
// settings since.
// https://www.postgresql.org/docs/current/sql-alterrole.html
var inherited = []string{
	"25006", // read-only transaction: default_transaction_read_only
	"42501", // insufficient privilege: role
	"42P01", // undefined table: search_path
	"42883", // undefined function: the same
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
