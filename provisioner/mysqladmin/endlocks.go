package mysqladmin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
func (s *Server) EndLocks(ctx context.Context) (ended []EndedLock, err error) {
	if s.nodes == nil {
		return nil, nil
	}
	var mu sync.Mutex
	var looking sync.WaitGroup
	var errs []error
	for _, one := range s.nodes.all {
		looking.Go(func() {
			sessions, err := s.endLocksOn(ctx, one)
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
	return ended, s.explain("look for locks that tenants hold", errors.Join(errs...))
}

// endLocksOn is EndLocks for a node. Its connection is for nothing else: the others may all be waiting for the lock.
func (s *Server) endLocksOn(ctx context.Context, one *node) (ended EndedLock, err error) {
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
		return s.endGroupLocks(ctx, conn, one)
	}
	return s.endGaleraLocks(ctx, conn, one, status["wsrep_last_committed"])
}

// endSessionsOn kills the sessions on a node of those accounts that the broker has made and that are wanted, and
// counts them.
func (s *Server) endSessionsOn(ctx context.Context, conn *sql.Conn,
	wanted func(account string) bool) (ended int, err error) {
	all, err := s.processList(ctx, conn)
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
