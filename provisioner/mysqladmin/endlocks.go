package mysqladmin

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"mysql-broker/provisioner/wsrep"
)

// lockPatience is how long a lock may hold a node of a cluster up.
const lockPatience = 5 * time.Second

// EndedLock says which sessions EndLocks has ended on a node.
type EndedLock struct {
	Node      string   // host:port
	Databases []string // of whose accounts they were; nil if it is not known who held the lock
	Sessions  int
}

// nodeWait is that of a node for a lock. What the node has received is committed in one order, so that nothing is
// until the wait ends. Only EndLocks uses it.
type nodeWait struct {
	what   string // Galera: the last transaction that was committed before; MySQL: the lock; "" if the node does not wait
	began  time.Time
	since  time.Time // or since EndLocks last ended sessions, or a rollback was in progress
	tried  bool      // EndLocks has tried to end the wait, in vain
	failed bool      // EndLocks could not find out who holds the lock, and has to try once more
}

// lasts reports whether a node has waited for lockPatience. It begins a new wait if that is for something else now.
func (w *nodeWait) lasts(what string, now time.Time) bool {
	if what == "" || what != w.what {
		*w = nodeWait{what: what, began: now, since: now}
		return false
	}
	return now.Sub(w.since) >= lockPatience
}

// EndLocks ends sessions of applications that for lockPatience keep a node of a cluster from applying what it has
// received from others: until then, the operations of other tenants wait, and soon all nodes. Any tenant can cause
// that. Call it every second, from one goroutine, whether the broker has something to do on the cluster or not: the
// other tenants always have.
func (on Cluster) EndLocks(ctx context.Context) (ended []EndedLock, err error) {
	if on.s.nodes == nil {
		return nil, nil
	}
	var mu sync.Mutex
	var looking sync.WaitGroup
	var errs []error
	for _, one := range on.s.nodes.all {
		looking.Go(func() {
			sessions, err := on.endLocksOn(ctx, one)
			mu.Lock()
			defer mu.Unlock()
			if sessions.Sessions > 0 {
				ended = append(ended, sessions)
			}
			if err != nil && !CannotReach(err) { // who needs the node reports that
				errs = append(errs, fmt.Errorf("end locks on node %s: %w", one.addr, err))
			}
		})
	}
	looking.Wait()
	return ended, on.s.explain("find locks that tenants hold", errors.Join(errs...))
}

// endLocksOn is EndLocks for a node. Its connection is for nothing else: the others may all be waiting for the lock.
func (on Cluster) endLocksOn(ctx context.Context, one *node) (ended EndedLock, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*nodeTimeout)
	defer cancel()
	conn, err := one.watch.Conn(ctx)
	if err != nil {
		return ended, err
	}
	defer func() { _ = conn.Close() }()
	status := map[string]string{}
	if err := readPairs(ctx, conn, status, "SHOW GLOBAL STATUS LIKE 'wsrep_last_committed'"); err != nil {
		return ended, err
	}
	if len(status) == 0 {
		return on.endGroupLocks(ctx, conn, one)
	}
	return on.endGaleraLocks(ctx, conn, one, status["wsrep_last_committed"])
}

// endSessionsOn kills the sessions on a node of those accounts that the broker has made and that are wanted, and
// counts them.
func (on Cluster) endSessionsOn(ctx context.Context, conn *sql.Conn,
	wanted func(account string) bool) (ended int, err error) {
	all, err := on.s.processList(ctx, conn)
	if err != nil {
		return 0, err
	}
	for _, c := range all {
		if !strings.HasPrefix(c.user, AccountPrefix) || !wanted(c.user) {
			continue
		}
		if _, err := conn.ExecContext(ctx, "KILL ?", c.id); err == nil {
			ended++
		} else if !wsrep.IsIsolated(err) && !hasNumber(err, errNoSuchThread) {
			return ended, err
		}
	}
	return ended, nil
}

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
func (on Cluster) endGaleraLocks(ctx context.Context, conn *sql.Conn, one *node,
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
		ended.Sessions, err = on.endSessionsOn(ctx, conn, func(string) bool { return true })
		return ended, err
	}
	databases, accounts, err := suspectsOn(ctx, conn)
	wait.tried, wait.failed = err == nil || wait.failed, err != nil
	if err == nil {
		ended.Databases = databases
		ended.Sessions, err = on.endSessionsOn(ctx, conn, func(account string) bool { return accounts[account] })
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
	all := map[string][]string{}
	err := EachRow(ctx, conn, "SHOW OPEN TABLES WHERE In_use > 0", func(rows *sql.Rows) error {
		var database, table string
		err := rows.Scan(&database, &table, new(sql.RawBytes), new(sql.RawBytes))
		all[database] = append(all[database], table)
		return err
	})
	return all, err
}

// cannotBeChanged reports whether a statement that changes rows of the table would have to wait for a lock on it. It
// names a column that does not exist, so that the server reads nothing if it gets the lock, and calls no function of
// a tenant that has put a view in the place of the table.
func cannotBeChanged(ctx context.Context, conn *sql.Conn, database, table string) bool {
	_, err := conn.ExecContext(ctx, "SELECT "+quoteIdentifier(rand.Text())+" FROM "+quoteIdentifier(database)+
		"."+quoteIdentifier(table)+" FOR UPDATE NOWAIT")
	return hasNumber(err, errLockWaitTimeout)
}

// heldLocks lists the sessions of tenants that have locks for which the member waits to apply what it has received,
// with the request for the lock and the table. There is no session if that has ended, and has left a prepared XA
// transaction.
// https://dev.mysql.com/doc/refman/8.4/en/performance-schema-metadata-locks-table.html
const heldLocks = `SELECT DISTINCT
		CONCAT(applier.thread_id, '.', wanted.owner_event_id, '.', wanted.object_instance_begin), wanted.object_schema,
		COALESCE(wanted.object_name, ''), COALESCE(holder.processlist_id, 0)
	FROM performance_schema.threads AS applier
	JOIN performance_schema.metadata_locks AS wanted ON wanted.owner_thread_id = applier.thread_id
		AND wanted.lock_status = 'PENDING'
	JOIN performance_schema.metadata_locks AS held ON held.object_type = wanted.object_type
		AND held.object_schema = wanted.object_schema AND held.object_name <=> wanted.object_name
		AND held.lock_status = 'GRANTED'
	LEFT JOIN performance_schema.threads AS holder ON holder.thread_id = held.owner_thread_id
	WHERE applier.name IN ('thread/sql/replica_worker', 'thread/sql/slave_worker', 'thread/sql/replica_sql',
		'thread/sql/slave_sql') AND (holder.thread_id IS NULL OR holder.processlist_user LIKE ?)
	ORDER BY 1`

// heldLock is a row of heldLocks.
type heldLock struct {
	request, database, table string
	session                  int64
}

// endGroupLocks is EndLocks for a member of Group Replication. Sessions on a secondary can lock tables for reading,
// and an open transaction keeps DDL from being applied. The group ends neither, and what the member receives later
// waits too. The transaction may be a prepared XA transaction, which outlives its session. Those of a
// secondary's sessions end with the server, because they have written nothing. To roll one back could break the
// replication of one of the primary.
func (on Cluster) endGroupLocks(ctx context.Context, conn *sql.Conn, one *node) (ended EndedLock, err error) {
	held, err := readHeldLocks(ctx, conn)
	if err != nil {
		return ended, err
	}
	request := ""
	if len(held) > 0 {
		request = held[0].request
	}
	if !one.wait.lasts(request, time.Now()) {
		return ended, nil
	}
	ended.Node = one.addr
	var left error
	for _, lock := range held {
		if lock.request != request {
			continue
		}
		if lock.session == 0 {
			left = fmt.Errorf("a prepared XA transaction of a session that has ended keeps the node from applying a change of "+
				"%s.%s: an administrator has to restart the node", quoteIdentifier(lock.database), quoteIdentifier(lock.table))
			continue
		}
		if _, err := conn.ExecContext(ctx, "KILL ?", lock.session); err == nil {
			ended.Sessions++
			one.wait.since = time.Now()
		} else if !hasNumber(err, errNoSuchThread) {
			return ended, err
		}
		if !slices.Contains(ended.Databases, lock.database) {
			ended.Databases = append(ended.Databases, lock.database)
		}
	}
	return ended, left
}

func readHeldLocks(ctx context.Context, member queryer) (all []heldLock, err error) {
	err = EachRow(ctx, member, heldLocks, func(rows *sql.Rows) error {
		var lock heldLock
		err := rows.Scan(&lock.request, &lock.database, &lock.table, &lock.session)
		all = append(all, lock)
		return err
	}, escapePattern(AccountPrefix)+"%")
	return all, err
}
