// Package wsrep asks a node of Galera whether a lock holds it up. Galera rolls transactions back that are in its way,
// but not LOCK TABLES, BACKUP LOCK and HANDLER.
package wsrep

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/go-sql-driver/mysql"
)

// textLimit is how much of a statement this package reads.
const textLimit = 1000

// MayWait reports whether something waits for a lock on a node that may hold it up.
func MayWait(ctx context.Context, node *sql.Conn) (bool, error) {
	seen, err := look(ctx, node, 0)
	return seen.received || seen.isolated || len(seen.waiting) > 0, err
}

// Waits reports whether a lock holds a node up: what it has received from others waits, or DDL of a session of its own
// that it executes for the whole cluster, and that has waited for patience. Such DDL is executed in isolation: the node
// commits nothing else meanwhile. MariaDB shows that only by its refusal to kill the statement. Another one that has
// waited for as long, and may be DDL, is killed. The account needs the privilege for that.
//
// DDL that waits to be executed in isolation may also wait for other DDL, which takes long. What may be such DDL is
// killed too, unless MariaDB refuses that: then no lock holds the node up.
// https://mariadb.com/docs/galera-cluster/galera-management/performing-schema-upgrades-in-galera-cluster
func Waits(ctx context.Context, node *sql.Conn, patience time.Duration) (bool, error) {
	seen, err := look(ctx, node, patience)
	if seen.received || err != nil {
		return seen.received, err
	}
	if waits, err := anyIsolated(ctx, node, seen.waiting); waits || err != nil || !seen.isolated || seen.applies {
		return waits, err
	}
	busy, err := anyIsolated(ctx, node, seen.working)
	return !busy && err == nil, err
}

// anyIsolated kills statements until MariaDB refuses that, because it executes one in isolation.
func anyIsolated(ctx context.Context, node *sql.Conn, sessions []int64) (bool, error) {
	for _, id := range sessions {
		_, err := node.ExecContext(ctx, "KILL QUERY ?", id)
		if IsIsolated(err) {
			return true, nil
		}
		if err != nil && !hasNumber(err, errNoSuchThread) {
			return false, err
		}
	}
	return false, nil
}

// sight is what sessions on a node do.
type sight struct {
	received bool    // what was received waits for a lock
	isolated bool    // a statement waits to be executed in isolation, or for a lock in isolation
	applies  bool    // the node applies DDL that it has received
	waiting  []int64 // sessions whose statements wait for a lock, and may be DDL
	working  []int64 // those whose statements wait for nothing, and may be DDL; first those that read nothing
}

// look reads what sessions on a node do, and have done for patience if they wait. A backup lock is an operator's.
func look(ctx context.Context, node *sql.Conn, patience time.Duration) (seen sight, err error) {
	rows, err := node.QueryContext(ctx, `SELECT id, user = 'system user',
			COALESCE(state = 'Waiting to execute in isolation', 0),
			COALESCE(state LIKE 'Waiting for % lock' AND state <> 'Waiting for backup lock', 0),
			time_ms >= ?, LEFT(COALESCE(info, ''), ?)
		FROM information_schema.processlist
		WHERE id <> CONNECTION_ID() AND (info IS NOT NULL OR state LIKE 'Waiting %')
		ORDER BY info LIKE '%SELECT%'`, patience.Milliseconds(), textLimit)
	if err != nil {
		return sight{}, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var id int64
		var system, isolation, lock, long bool
		var text string
		if err := rows.Scan(&id, &system, &isolation, &lock, &long, &text); err != nil {
			return sight{}, err
		}
		waits := isolation || lock
		switch {
		case system && waits:
			seen.received = true
		case system:
			seen.applies = seen.applies || text != "" && maybeDDL(text)
		case waits && !long, !maybeDDL(text):
		case isolation:
			seen.isolated = true
		case lock:
			seen.waiting = append(seen.waiting, id)
		default:
			seen.working = append(seen.working, id)
		}
	}
	return seen, rows.Err()
}

const (
	errNoSuchThread = 1094
	errKillDenied   = 1095
)

// IsIsolated reports whether KILL was refused because the node executes the statement for the whole cluster.
func IsIsolated(err error) bool { return hasNumber(err, errKillDenied) }

func hasNumber(err error, number uint16) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == number
}
