package mysqladmin

import (
	"context"
	"crypto/rand"
	"database/sql"
	"maps"
	"slices"
	"time"

	"mysql-broker/provisioner/wsrep"
)

// endGaleraLocks is EndLocks for a node of Galera, which has committed a transaction last. Galera rolls transactions
// back that are in its way, but not LOCK TABLES, BACKUP LOCK and HANDLER: until such a session ends, no node can
// execute DDL. DDL of the node's own sessions waits too, and all other changes with it.
//
// With its default settings, MariaDB does not show who holds a lock. First, the sessions on that node end of the
// accounts of the databases in which a table cannot be changed now. If the node still waits lockPatience later, those
// of all accounts end that the broker has made: a lock may be on a table that nobody has open. That is not done at
// once, because another broker may just have ended the session that held the lock.
//
// A large transaction that Galera rolls back keeps its locks until the end, which may take minutes. endGaleraLocks
// waits for that, because ending sessions would not help. DDL of a tenant, and the application of a large
// transaction, may take as long, but then what the node has received after it does not wait for a lock.
func (s *Server) endGaleraLocks(ctx context.Context, conn *sql.Conn, one *node,
	committed string) (ended EndedLock, err error) {
	if waits, err := wsrep.MayWait(ctx, conn); err != nil {
		return ended, err
	} else if !waits {
		committed = ""
	}
	wait, now := &one.wait, time.Now()
	if !wait.lasts(committed, now) {
		return ended, nil
	}
	if rolling, err := rollsBack(ctx, conn, now.Sub(wait.began)); err != nil {
		return ended, err
	} else if rolling {
		wait.since = now
		return ended, nil
	}
	if waits, err := wsrep.Waits(ctx, conn, lockPatience); err != nil || !waits {
		return ended, err
	}
	tried := wait.tried
	wait.since = time.Now()
	ended.Node = one.addr
	if tried {
		ended.Sessions, err = s.endSessionsOn(ctx, conn, func(string) bool { return true })
		return ended, err
	}
	databases, accounts, err := suspectsOn(ctx, conn)
	wait.tried, wait.failed = err == nil || wait.failed, err != nil
	if err == nil {
		ended.Databases = databases
		ended.Sessions, err = s.endSessionsOn(ctx, conn, func(account string) bool { return accounts[account] })
	}
	return ended, err
}

// rollsBack reports whether a node rolls a transaction back that is older than a wait. A tenant could begin ever
// newer ones to keep a lock for longer.
func rollsBack(ctx context.Context, conn *sql.Conn, waited time.Duration) (rolling bool, err error) {
	// InnoDB shows the time in the zone of the host.
	err = conn.QueryRowContext(ctx, `SET STATEMENT time_zone = 'SYSTEM' FOR
		SELECT COUNT(*) > 0 FROM information_schema.innodb_trx
		WHERE trx_state = 'ROLLING BACK' AND trx_started <= NOW() - INTERVAL ? SECOND`, int(waited.Seconds())).Scan(&rolling)
	return rolling, err
}

// suspectsOn returns the databases on a node in which a table in use cannot be changed, and their accounts.
func suspectsOn(ctx context.Context, conn *sql.Conn) (databases []string, accounts map[string]bool, err error) {
	inUse, err := tablesInUse(ctx, conn)
	if err != nil {
		return nil, nil, err
	}
	accounts = map[string]bool{}
	for _, database := range slices.Sorted(maps.Keys(inUse)) {
		if !slices.ContainsFunc(inUse[database], func(table string) bool {
			return cannotBeChanged(ctx, conn, database, table)
		}) {
			continue
		}
		of, err := names(ctx, conn, "SELECT user FROM mysql.db WHERE db = ?", escapePattern(database))
		if err != nil {
			return nil, nil, err
		}
		databases = append(databases, database)
		for _, account := range of {
			accounts[account] = true
		}
	}
	return databases, accounts, ctx.Err()
}

// tablesInUse lists by database the tables that a statement uses, or that are locked.
// https://mariadb.com/docs/server/reference/sql-statements/administrative-sql-statements/show/show-open-tables
func tablesInUse(ctx context.Context, conn *sql.Conn) (map[string][]string, error) {
	rows, err := conn.QueryContext(ctx, "SHOW OPEN TABLES WHERE In_use > 0")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	all := map[string][]string{}
	for rows.Next() {
		var database, table string
		if err := rows.Scan(&database, &table, new(sql.RawBytes), new(sql.RawBytes)); err != nil {
			return nil, err
		}
		all[database] = append(all[database], table)
	}
	return all, rows.Err()
}

// cannotBeChanged reports whether a statement that changes rows of the table would have to wait for a lock on it. It
// names a column that does not exist, so that the server reads nothing if it gets the lock, and calls no function of
// a tenant that has put a view in the place of the table.
func cannotBeChanged(ctx context.Context, conn *sql.Conn, database, table string) bool {
	_, err := conn.ExecContext(ctx, "SELECT "+quoteIdentifier(rand.Text())+" FROM "+quoteIdentifier(database)+
		"."+quoteIdentifier(table)+" FOR UPDATE NOWAIT")
	return hasNumber(err, errLockWaitTimeout)
}
