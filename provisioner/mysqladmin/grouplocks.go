package mysqladmin

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

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
func (s *Server) endGroupLocks(ctx context.Context, conn *sql.Conn, one *node) (ended EndedLock, err error) {
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
	rows, err := member.QueryContext(ctx, heldLocks, escapePattern(AccountPrefix)+"%")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var lock heldLock
		if err := rows.Scan(&lock.request, &lock.database, &lock.table, &lock.session); err != nil {
			return nil, err
		}
		all = append(all, lock)
	}
	return all, rows.Err()
}
