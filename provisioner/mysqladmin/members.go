package mysqladmin

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// nodeMissingError says that a member of the cluster cannot be reached, so that sessions there cannot be ended, and a
// lock there not be checked. It counts as CannotReach.
type nodeMissingError struct {
	members, reached int
	err              error // of those that were not reached; nil if all nodes that are listed were
}

func (e *nodeMissingError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("the cluster has %d members, but the broker's uri lists %d of them: list all", e.members,
			e.reached)
	}
	return fmt.Sprintf("%d of the cluster's %d members can be reached: %v", e.reached, e.members, e.err)
}

func (e *nodeMissingError) Unwrap() error { return e.err }

// errNoMember is about a node that answers, and that the cluster may count already.
var errNoMember = errors.New("it is not a member, or is just joining")

// membership is what a node knows of its cluster.
type membership struct {
	cluster string // identifies it; "" for a server that is in none
	members int    // that hold data
}

// member reads what a node knows of its cluster. A node that was cut off, or has left, is in none: it takes no writes.
func member(ctx context.Context, on queryer) (m membership, err error) {
	status := map[string]string{}
	if err := readPairs(ctx, on, status, galeraStatus); err != nil {
		return m, err
	}
	if len(status) == 0 {
		return groupMember(ctx, on)
	}
	if status["wsrep_cluster_status"] != "Primary" {
		return m, nil
	}
	m.cluster = status["wsrep_cluster_state_uuid"]
	for address := range strings.SplitSeq(status["wsrep_incoming_addresses"], ",") {
		if address != "" { // an arbitrator has none
			m.members++
		}
	}
	return m, nil
}

// groupMember is member for Group Replication. A member that hears no majority says that it is online nevertheless.
// https://dev.mysql.com/doc/refman/8.4/en/performance-schema-replication-group-members-table.html
func groupMember(ctx context.Context, on queryer) (m membership, err error) {
	found := map[string]string{}
	err = readPairs(ctx, on, found, `SELECT 'own',
				IF(COALESCE(SUM(member_state = 'UNREACHABLE'), 0) * 2 >= COUNT(*), '',
					MAX(IF(member_id = @@GLOBAL.server_uuid, member_state, '')))
			FROM performance_schema.replication_group_members
		UNION ALL SELECT 'members', COUNT(*) FROM performance_schema.replication_group_members
			WHERE member_state IN ('ONLINE', 'RECOVERING', 'UNREACHABLE')
		UNION ALL SELECT 'group', COALESCE(MAX(group_name), '') FROM performance_schema.replication_connection_status
			WHERE channel_name = 'group_replication_applier'`)
	if own := found["own"]; err == nil && (own == "ONLINE" || own == "RECOVERING") {
		m.cluster = found["group"]
		_, err = fmt.Sscan(found["members"], &m.members)
	}
	return m, err
}

// eachOther runs fn on a connection to every other member of the cluster, on all at once, after what this session has
// changed has arrived there. It fails if a member cannot be reached. It waits for no node once it has reached all
// members. It does nothing on a single server.
func (s *Session) eachOther(ctx context.Context, fn func(ctx context.Context, node int, conn *sql.Conn) error) error {
	all := s.server.nodes
	if all == nil {
		return nil
	}
	here, err := member(ctx, s.conn)
	if err == nil && here.cluster == "" {
		err = errReadOnlyNode
	}
	if err != nil {
		return s.fail("read the members of the cluster", err)
	}
	barrier, err := s.barrier(ctx)
	if err != nil {
		return err
	}
	ctx, allReached := context.WithCancel(ctx)
	defer allReached()
	var mu sync.Mutex
	var working sync.WaitGroup
	var missing, failed []error
	var excluded []*node
	reached := 1
	for n, one := range all.all {
		if n == s.node() {
			continue
		}
		working.Go(func() {
			isMember, err := one.asMember(ctx, here.cluster, func(conn *sql.Conn) error {
				if err := barrier(ctx, conn); err != nil {
					return err
				}
				return fn(ctx, n, conn)
			})
			mu.Lock()
			defer mu.Unlock()
			if isMember {
				failed = append(failed, err)
				if reached++; reached == here.members {
					allReached()
				}
				return
			}
			excluded = append(excluded, one)
			if err == nil {
				err = errNoMember
			}
			missing = append(missing, fmt.Errorf("node %s: %w", one.addr, err))
		})
	}
	working.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if reached < here.members {
		return &nodeMissingError{here.members, reached, errors.Join(missing...)}
	}
	for _, one := range excluded { // it may return before EndStaleSessions looks
		one.away.Store(true)
	}
	return nil
}

// node is the number of the node that the session is on.
func (s *Session) node() (n int) {
	n = -1
	_ = s.conn.Raw(func(conn any) error {
		if c, ok := conn.(nodeConn); ok {
			n = c.node
		}
		return nil
	})
	return n
}

// asMember runs fn on a connection to the node if the node can be reached and is a member of the cluster.
func (n *node) asMember(ctx context.Context, cluster string, fn func(*sql.Conn) error) (isMember bool, err error) {
	connecting, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	conn, err := n.db.Conn(connecting)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	m, err := member(connecting, conn)
	if err != nil || m.cluster != cluster {
		return false, err
	}
	err = fn(conn)
	if err != nil { // the connection may still have a session variable, or hold a lock
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return true, err
}

// barrier returns a function that waits, on another node, until what this session has changed is there.
// https://dev.mysql.com/doc/refman/8.4/en/gtid-functions.html#function_wait-for-executed-gtid-set
func (s *Session) barrier(ctx context.Context) (func(context.Context, *sql.Conn) error, error) {
	if s.dialect.cluster == galera {
		return syncWait, nil
	}
	executed, err := names(ctx, s.conn, "SELECT @@GLOBAL.gtid_executed")
	if err != nil {
		return nil, s.fail("read what the node has executed", err)
	}
	return func(ctx context.Context, conn *sql.Conn) error {
		var late int
		err := conn.QueryRowContext(ctx, "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?)", executed[0],
			catchUpTime.Seconds()).Scan(&late)
		if err == nil && late != 0 {
			err = errLags
		}
		return explain("wait until a node is up to date", err)
	}, nil
}

// syncWait waits until a node of Galera has everything that was committed on any node.
// https://mariadb.com/docs/galera-cluster/reference/galera-cluster-system-variables#wsrep_sync_wait
func syncWait(ctx context.Context, conn *sql.Conn) error {
	for _, statement := range []string{"SET SESSION wsrep_sync_wait = 1", "BEGIN", "COMMIT",
		"SET SESSION wsrep_sync_wait = 0"} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("wait until a node is up to date: %w", err)
		}
	}
	return nil
}

// catchUpTime is how long another node may lag.
const catchUpTime = 5 * time.Second

// errLags counts as Unreachable.
var errLags = errors.New("the node lags behind")

// spreadTime is how long spread waits at most.
const spreadTime = 3 * time.Second

// spread waits until the other nodes have what the session has changed, so that an application that gets a new account
// can log in to any of them. It does not wait long for a node that lags or hangs.
func (s *Session) spread(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, spreadTime)
	defer cancel()
	_ = s.eachOther(ctx, func(context.Context, int, *sql.Conn) error { return nil })
}

// fence kills sessions with the same lock on the other nodes: there, a worker that was paused may still hold it.
func (s *Session) fence(ctx context.Context) error {
	return s.eachOther(ctx, func(ctx context.Context, _ int, conn *sql.Conn) error {
		var holder sql.NullInt64
		if err := conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", s.lock).Scan(&holder); err != nil {
			return err
		}
		if !holder.Valid {
			return nil
		}
		if err := s.alive(); err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, "KILL ?", holder.Int64); err != nil && !hasNumber(err, errNoSuchThread) {
			return fmt.Errorf("kill the connection that holds the lock on another node: %w", err)
		}
		var ended, released sql.NullBool
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?), RELEASE_LOCK(?)", s.lock, lockWait.Seconds(),
			s.lock).Scan(&ended, &released); err != nil {
			return err
		}
		if !ended.Bool {
			return errLockHeld
		}
		return nil
	})
}

// nodeShift is the number of bits below the node's number, counted from 1, in the id of a connection to another node.
const nodeShift = 48

// elsewhere lists the connections to all other nodes.
func (s *Session) elsewhere(ctx context.Context) (all []connection, err error) {
	var mu sync.Mutex
	err = s.eachOther(ctx, func(ctx context.Context, node int, conn *sql.Conn) error {
		found, err := s.server.processList(ctx, conn)
		mu.Lock()
		defer mu.Unlock()
		for _, c := range found {
			c.id |= int64(node+1) << nodeShift
			all = append(all, c)
		}
		return err
	})
	return all, err
}

// killElsewhere kills a connection that elsewhere has listed.
func (s *Session) killElsewhere(ctx context.Context, id int64) error {
	if err := s.alive(); err != nil {
		s.failed = true
		return err
	}
	node := s.server.nodes.all[id>>nodeShift-1]
	_, err := node.db.ExecContext(ctx, "KILL ?", id&(1<<nodeShift-1))
	return err
}

// connections lists the connections to all nodes that can be reached.
func (n *nodes) connections(ctx context.Context, s *Server) (all []connection, err error) {
	var errs []error
	for _, one := range n.all {
		limited, cancel := context.WithTimeout(ctx, nodeTimeout)
		found, err := s.processList(limited, one.db)
		cancel()
		all, errs = append(all, found...), append(errs, err)
	}
	if len(all) == 0 {
		return nil, errors.Join(errs...)
	}
	return all, nil
}

// EndStaleSessions kills the applications' sessions on nodes that have returned to the cluster since the last call:
// their accounts may have been ended while the node could not be reached. Call it often.
func (on Cluster) EndStaleSessions(ctx context.Context) error {
	if on.s.nodes == nil {
		return nil
	}
	here, err := on.clusterHere(ctx)
	if err != nil || here.cluster == "" {
		return on.s.explain("read the members of the cluster", err)
	}
	primary, _ := on.s.nodes.state()
	var errs []error
	for n, one := range on.s.nodes.all {
		if n == primary {
			continue
		}
		isMember, err := on.endStaleOn(ctx, one, here.cluster)
		switch {
		case isMember && err != nil:
			errs = append(errs, fmt.Errorf("end sessions on node %s: %w", one.addr, err))
		case isMember:
			one.away.Store(false)
		case here.members < len(on.s.nodes.all): // else it is a member that cannot be reached now
			one.away.Store(true)
		}
	}
	return on.s.explain("end sessions on nodes that were away", errors.Join(errs...))
}

// Lost returns why each node that the broker's uri lists, and that cannot be reached or is no member of the cluster, is
// lost. A single server has no nodes.
func (on Cluster) Lost(ctx context.Context) (map[string]error, error) {
	if on.s.nodes == nil {
		return nil, nil
	}
	here, err := on.clusterHere(ctx)
	if err == nil && here.cluster == "" {
		err = errReadOnlyNode
	}
	if err != nil {
		return nil, on.s.explain("read the members of the cluster", err)
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	lost := map[string]error{}
	for _, one := range on.s.nodes.all {
		asking.Go(func() {
			isMember, err := one.asMember(ctx, here.cluster, func(*sql.Conn) error { return nil })
			if isMember {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			lost[one.addr] = cmp.Or(err, errNoMember)
		})
	}
	asking.Wait()
	return lost, nil
}

// clusterHere reads what the primary knows of the cluster.
func (on Cluster) clusterHere(ctx context.Context) (membership, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	return member(ctx, on.s.reads)
}

// endStaleOn kills the applications' sessions on a node if it was away. Each node has its own timeout, so that one that
// hangs does not use up the time of the others.
func (on Cluster) endStaleOn(ctx context.Context, one *node, cluster string) (isMember bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*nodeTimeout)
	defer cancel()
	return one.asMember(ctx, cluster, func(conn *sql.Conn) error {
		if !one.away.Load() {
			return nil
		}
		_, err := on.endSessionsOn(ctx, conn, func(string) bool { return true })
		return err
	})
}
