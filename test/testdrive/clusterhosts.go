package testdrive

import (
	"context"
	"database/sql"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
)

// protocol lists the addresses at which the nodes reach each other.
func (c *Cluster) protocol() (all []string) {
	for _, node := range c.Nodes {
		all = append(all, node.at(node.group))
	}
	return all
}

// at is an address of a node.
func (n *Node) at(port int) string { return net.JoinHostPort(n.Host, strconv.Itoa(port)) }

// Reassemble does what an operator does until all nodes are members again: on MySQL, it lets those join that are in no
// group, and if none is in one, the group begins again with the node that has all transactions. Nodes of Galera do that
// themselves.
func (c *Cluster) Reassemble(t testing.TB) {
	if c.Flavour == mysqld.MySQL {
		Eventually(t, "three members are online", func() bool { return c.assemble(t) })
		return
	}
	c.AwaitComplete(t)
}

// StartAll starts a cluster of MySQL of which no node runs.
func (c *Cluster) StartAll(t testing.TB) {
	for n := range c.Nodes {
		c.launch(t, n, false)
	}
	c.Reassemble(t)
}

// nodeLook is what a node says of itself and of the group.
type nodeLook struct {
	state    string // "" if it has been in no group since its start
	majority bool
	online   int // members that it knows to be online
	executed string
	offline  bool
	rejoins  bool // by itself
}

// out reports whether a node is in no group.
func (l nodeLook) out() bool { return slices.Contains([]string{"", "OFFLINE", "ERROR"}, l.state) }

func (c *Cluster) assemble(t testing.TB) (complete bool) {
	var all [clusterSize]nodeLook
	online, out := 0, 0
	for n, node := range c.Nodes {
		if err := node.within(t, loginTime, func(ctx context.Context, db *sql.DB) error {
			return db.QueryRowContext(ctx, `SELECT COALESCE(MAX(IF(member_id = @@server_uuid, member_state, NULL)), ''),
				COALESCE(SUM(member_state <> 'UNREACHABLE') * 2 > COUNT(*), 0), COALESCE(SUM(member_state = 'ONLINE'), 0),
				@@GLOBAL.gtid_executed, @@GLOBAL.offline_mode, EXISTS (SELECT 1 FROM performance_schema.events_stages_current
					WHERE event_name = 'stage/group_rpl/Undergoing auto-rejoin procedure')
				FROM performance_schema.replication_group_members`).Scan(&all[n].state, &all[n].majority, &all[n].online,
				&all[n].executed, &all[n].offline, &all[n].rejoins)
		}); err != nil {
			return false // the server is too busy, or the network is not there yet
		}
		if all[n].state == "ONLINE" && all[n].majority {
			online++
		}
		if all[n].out() {
			out++
		}
	}
	if out == clusterSize {
		c.begin(t, all)
		return false
	}
	for n, node := range c.Nodes {
		if all[n].out() && online > 0 && !all[n].rejoins {
			// It fails while the group still knows the node, or another one joins. Then the next look repeats it.
			_ = node.Exec(t, "STOP GROUP_REPLICATION")
			_ = node.start(t)
		} else if all[n].state == "ONLINE" && all[n].offline {
			_ = node.Exec(t, "SET GLOBAL offline_mode=OFF")
		}
	}
	// One may still be excluded by the others, because it was slow or cut off, and not know that yet.
	return !slices.ContainsFunc(all[:], func(l nodeLook) bool { return l.online < clusterSize || l.offline })
}

// begin begins the group again with a node that has all transactions.
func (c *Cluster) begin(t testing.TB, all [clusterSize]nodeLook) {
	t.Helper()
	for n, node := range c.Nodes {
		has := true
		for _, other := range all {
			var subset bool
			require.NoError(t, node.Query(t, "SELECT GTID_SUBSET('"+other.executed+"', '"+all[n].executed+"')", &subset))
			has = has && subset
		}
		if !has {
			continue
		}
		require.NoError(t, node.Exec(t, "STOP GROUP_REPLICATION"))
		node.join(t, true)
		require.NoError(t, node.Exec(t, "SET GLOBAL offline_mode=OFF"))
		return
	}
	t.Fatalf("no node has the transactions of all others: %v", all)
}

// loginTime is how long HasMajority waits for a node.
const loginTime = 5 * time.Second

// HasMajority reports whether a node is in a group, and hears a majority of it. A member of MySQL lets nobody log in while
// a statement on an account waits there for the majority.
func (c *Cluster) HasMajority(t testing.TB, node *Node) (has bool, err error) {
	query := `SELECT variable_value = 'Primary' FROM information_schema.global_status
		WHERE variable_name = 'wsrep_cluster_status'`
	if c.Flavour == mysqld.MySQL {
		query = `SELECT COALESCE(SUM(member_state IN ('ONLINE', 'RECOVERING')) * 2 > COUNT(*), 0)
			FROM performance_schema.replication_group_members`
	}
	err = node.within(t, loginTime, func(ctx context.Context, db *sql.DB) error {
		return db.QueryRowContext(ctx, query).Scan(&has)
	})
	return has, err
}

// start makes a MySQL server join the group.
func (n *Node) start(t testing.TB) error {
	return n.Exec(t, "START GROUP_REPLICATION USER='"+n.User+"', PASSWORD='"+n.Password+"'")
}
