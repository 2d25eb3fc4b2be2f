package mysqladmin

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// nextNodeAfter is how long a node may take to accept a connection before the next one is tried as well.
	nextNodeAfter = 500 * time.Millisecond
	// nodeTimeout limits an attempt to connect to one node.
	nodeTimeout = 3 * time.Second
	// maxNodeConns limits the connections to each node that check locks and kill sessions.
	maxNodeConns = 4
)

// nodes are the servers of a cluster: Galera, or Group Replication. All changes go to one of them at a time, the
// primary: with Group Replication the only one that accepts writes, with Galera the one that this broker has chosen.
type nodes struct {
	all []*node

	mu      sync.Mutex
	primary int  // index in all
	found   bool // the primary has accepted a connection; before, it is only the first one of the list
	changes int  // how often primary has changed; connections from before a change are not used again
	checks  checks
}

// node is a server of a cluster.
type node struct {
	addr      string
	connector driver.Connector
	db        *pool       // for locks and sessions on a node that is not the primary
	watch     *pool       // for EndLocks
	wait      nodeWait    // likewise
	away      atomic.Bool // it was not a member when this broker checked; EndStaleSessions has sessions to end there
}

// openNodes prepares connections to the nodes of a cluster. It returns nil for a single server.
func openNodes(cfg Config) (*nodes, error) {
	if len(cfg.Nodes) == 0 {
		return nil, nil
	}
	n := &nodes{}
	for _, addr := range cfg.Nodes {
		own := cfg
		own.Addr = addr
		driverConfig, err := own.driver()
		if err != nil {
			return nil, err
		}
		driverConfig.Timeout = nodeTimeout
		connector, err := mysql.NewConnector(driverConfig)
		if err != nil {
			return nil, err
		}
		one := &node{addr: addr, connector: traced{connector, addr}}
		one.db, one.watch = newPool(one.connector, maxNodeConns), newPool(one.connector, 1)
		n.all = append(n.all, one)
	}
	return n, nil
}

func (n *nodes) close() error {
	var errs []error
	for _, one := range n.all {
		errs = append(errs, one.db.Close(), one.watch.Close())
	}
	return errors.Join(errs...)
}

// nodeConn is a connection to the node that was the primary when it was opened.
type nodeConn struct {
	mysqlConn
	nodes   *nodes
	node    int
	changes int
}

// ResetSession keeps database/sql from using the connection again once another node is the primary.
func (c nodeConn) ResetSession(ctx context.Context) error {
	if _, changes := c.nodes.state(); changes != c.changes {
		return driver.ErrBadConn
	}
	return c.mysqlConn.ResetSession(ctx)
}

func (n *nodes) state() (primary, changes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.primary, n.changes
}

// use makes a node the primary, and returns how often the primary has changed.
func (n *nodes) use(node int) (changes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.found = true
	if n.primary != node {
		n.primary = node
		n.changes++
	}
	return n.changes
}

// Driver implements driver.Connector.
func (n *nodes) Driver() driver.Driver { return mysql.MySQLDriver{} }

// Connect implements driver.Connector. It tries the primary first, and soon the other nodes beside it: the host of a
// node that is gone does not even refuse connections.
func (n *nodes) Connect(ctx context.Context) (driver.Conn, error) {
	type attempt struct {
		node int
		conn driver.Conn
		err  error
	}
	first, _ := n.state()
	attempts := make(chan attempt, len(n.all))
	trying, cancel := context.WithTimeout(ctx, nodeTimeout+time.Duration(len(n.all))*nextNodeAfter)
	defer cancel()
	begun, ended := 0, 0
	begin := func() {
		if begun == len(n.all) {
			return
		}
		node := (first + begun) % len(n.all)
		begun++
		go func() {
			conn, err := n.all[node].connectToWrite(trying)
			attempts <- attempt{node, conn, err}
		}()
	}
	defer func() {
		go func() { // connections that came too late
			for range begun - ended {
				if late := <-attempts; late.err == nil {
					_ = late.conn.Close()
				}
			}
		}()
	}()
	var errs []error
	begin()
	for ended < len(n.all) {
		next := time.NewTimer(nextNodeAfter)
		select {
		case a := <-attempts:
			ended++
			if a.err == nil {
				next.Stop()
				return nodeConn{a.conn.(mysqlConn), n, a.node, n.use(a.node)}, nil
			}
			errs = append(errs, fmt.Errorf("node %s: %w", n.all[a.node].addr, a.err))
		case <-next.C:
		}
		begin()
		next.Stop()
	}
	return nil, &noPrimaryError{errors.Join(errs...)}
}

// noPrimaryError says that no node of a cluster accepts writes. It counts as CannotReach.
type noPrimaryError struct{ error }

func (e *noPrimaryError) Error() string {
	return "no node of the cluster accepts writes: " + e.error.Error()
}

func (e *noPrimaryError) Unwrap() error { return e.error }

// errReadOnlyNode is the error of connections to nodes that accept no writes.
var errReadOnlyNode = errors.New("the node accepts no writes")

// errDonor is that of a Galera node that others are preferred to.
var errDonor = fmt.Errorf("%w: it copies its data to another node", errReadOnlyNode)

// connectToWrite connects to a node. It returns an error if the node accepts no writes.
func (n *node) connectToWrite(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	conn, err := n.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	err = writable(ctx, conn.(driver.QueryerContext))
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// writable returns an error unless the node accepts writes: Group Replication makes the others read-only, and a node of
// either kind must hear a majority. A primary of Group Replication that does not is not read-only: it lets every commit
// wait. Nor is a node that was started, and has not joined the group yet: it could not join it with what was written.
func writable(ctx context.Context, conn driver.QueryerContext) error {
	status, err := pairs(ctx, conn, galeraStatus)
	if err != nil {
		return err
	}
	if len(status) > 0 {
		switch {
		case status["wsrep_ready"] != "ON":
			return errReadOnlyNode
		case status["wsrep_local_state"] == galeraDonor:
			return errDonor
		case status["wsrep_local_state"] != galeraSynced:
			return errReadOnlyNode
		}
		return nil
	}
	status, err = pairs(ctx, conn, replicationStatus)
	if err != nil || status["read_only"] == "0" {
		return err
	}
	primaries, _ := pairs(ctx, conn, groupPrimaries)
	for host, port := range primaries {
		return fmt.Errorf("%w: the primary of its group is %s, which the broker's uri has to list", errReadOnlyNode,
			net.JoinHostPort(host, port))
	}
	return errReadOnlyNode
}

// groupPrimaries reads host and port of primaries of Group Replication, as the group knows them.
const groupPrimaries = `SELECT '', '' FROM DUAL WHERE FALSE
	/*!80000 UNION SELECT member_host, member_port FROM performance_schema.replication_group_members
		WHERE member_role = 'PRIMARY' */`

// galeraStatus has no rows on other servers.
// https://mariadb.com/docs/galera-cluster/reference/galera-cluster-status-variables
const galeraStatus = `SHOW GLOBAL STATUS WHERE Variable_name IN
	('wsrep_ready', 'wsrep_local_state', 'wsrep_cluster_status', 'wsrep_cluster_state_uuid', 'wsrep_incoming_addresses')`

const (
	galeraDonor  = "2"
	galeraSynced = "4"
)

// replicationStatus is for servers without Galera. MariaDB skips the comment.
// https://dev.mysql.com/doc/refman/8.4/en/group-replication-network-partitioning.html
const replicationStatus = `SELECT 'read_only', @@GLOBAL.read_only
	/*!80000 OR @@GLOBAL.super_read_only OR @@GLOBAL.offline_mode OR (
		SELECT COALESCE(SUM(member_state = 'UNREACHABLE') * 2 >= COUNT(*) OR SUM(member_state = 'OFFLINE'), 0)
		FROM performance_schema.replication_group_members) */`

// pairs reads a query with two columns.
func pairs(ctx context.Context, conn driver.QueryerContext, query string) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	all := map[string]string{}
	row := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[text(row[0])] = text(row[1])
	}
}

func text(v driver.Value) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}

// primaryChanges counts the changes of the primary; it is 0 on a single server.
func (n *nodes) primaryChanges() int {
	if n == nil {
		return 0
	}
	_, changes := n.state()
	return changes
}

// demoted drops the open connections if an error says that their node accepts no writes any more. The error that it
// returns then counts as CannotReach.
func (n *nodes) demoted(err error) error {
	if n == nil || !errors.Is(err, errReadOnlyNode) && !hasNumber(err, demotions...) {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changes++
	if errors.Is(err, errReadOnlyNode) {
		return err
	}
	return fmt.Errorf("%w: %w", errReadOnlyNode, err)
}

// demotions are the errors of a node that was the primary.
var demotions = []uint16{
	1047, // a Galera node without a majority
	1290, // read-only
	3100, // Group Replication: the member could not commit
}
