package mysqlgroup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	lockName = "mysql_broker_group"

	// lockWait is for how long another broker may work on a member. After that it counts as paused.
	lockWait = 20 * time.Second
	// lockEnd is how long the session of such a broker may take to end.
	lockEnd = 5 * time.Second
)

// Lock returns once this session holds the lock of a member, until it ends. Whoever then looks again and changes the
// member is the only one that does: a broker that was paused meanwhile has lost its session, and its statements fail.
func Lock(ctx context.Context, member *sql.Conn) error {
	got, err := getLock(ctx, member, lockWait)
	if err != nil || got {
		return err
	}
	var holder sql.NullInt64
	if err := member.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", lockName).Scan(&holder); err != nil {
		return err
	}
	if holder.Valid {
		if _, err := member.ExecContext(ctx, fmt.Sprintf("KILL %d", holder.Int64)); err != nil && !isNoSession(err) {
			return err
		}
	}
	if got, err = getLock(ctx, member, lockEnd); err == nil && !got {
		err = errors.New("another broker's session on a member of the group does not end")
	}
	return err
}

func getLock(ctx context.Context, member *sql.Conn, wait time.Duration) (got bool, err error) {
	var answer sql.NullBool
	err = member.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", lockName, wait.Seconds()).Scan(&answer)
	return answer.Bool, err
}

// isNoSession reports whether a session that was to be killed has ended.
func isNoSession(err error) bool {
	answer, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && answer.Number == 1094 // ER_NO_SUCH_THREAD
}
