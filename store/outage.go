package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrUnavailable is in the chain of every error that says that PostgreSQL cannot be reached, does not answer, or cannot
// serve just now. What was under way has taken effect or not: a commit's answer may be all that was lost.
var ErrUnavailable = errors.New("store: PostgreSQL is unavailable")

const (
	// statementTime bounds the wait for the answer to one statement. It is far more than any of them takes, locks
	// that other requests hold included, and far less than platforms wait.
	statementTime = 5 * time.Second
	// txTime bounds a transaction from its BEGIN to the answer to its COMMIT.
	txTime = 2 * statementTime
	// idleTime is when PostgreSQL ends a transaction whose broker says nothing more, because it is paused or cut off:
	// its locks would keep all other brokers waiting.
	idleTime = "10s"
)

func endIdleTransactions(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SET idle_in_transaction_session_timeout = '"+idleTime+"'")
	return err
}

// bounded is a pool or a transaction whose statements are answered in statementTime or fail with ErrUnavailable.
type bounded struct{ querier }

func (b bounded) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	limited, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	tag, err := b.querier.Exec(limited, sql, args...)
	return tag, explain(ctx, err)
}

// explain marks the error of a statement with ErrUnavailable if it is one. ctx is the caller's: when that has ended,
// the error says nothing about PostgreSQL.
func explain(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrUnavailable) || !outage(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// outages are the classes of SQLSTATE that say "not now" rather than "not so": connection exception, transaction
// rollback, insufficient resources, object not in prerequisite state (a lock), operator intervention.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var outages = []string{"08", "40", "53", "55", "57"}

func outage(err error) bool {
	if _, failed := errors.AsType[*pgconn.ConnectError](err); failed {
		return true
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return len(refused.Code) == 5 && slices.Contains(outages, refused.Code[:2])
	}
	if _, broken := errors.AsType[net.Error](err); broken {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}
