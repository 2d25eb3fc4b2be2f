package testdrive

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process/files"
	"mysql-broker/test/admit"
	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/network"
	"mysql-broker/test/servers"
)

// clusterSize is how many nodes a cluster has.
const clusterSize = 3

// Cluster is three servers of one flavour: MariaDB with Galera, or MySQL with Group Replication and a single primary.
// They share one certificate, and the accounts of servers.MySQL.
type Cluster struct {
	Flavour string
	Nodes   [clusterSize]*Node
	binary  mysqld.Binary
	dir     string
	id      string // of the cluster or group
	user    files.Owner
}

// Node is a server of a cluster. Its methods are for one goroutine.
type Node struct {
	servers.MySQL
	On            *network.Host // nil: this host
	dir           string
	group, states int // ports: for the group, and for Galera's state transfers
	process       *Broker
}

// transfer is the program for state transfers, wsrep_sst_increment. The nodes of a test begin with the same data, and one
// that returns needs only what it has missed, which Galera transfers itself: the program only says so. It does not
// transfer a whole state; the real programs are in packages that install a service.
// https://mariadb.com/docs/galera-cluster/galera-management/state-snapshot-transfers-ssts-in-galera-cluster
//
//go:embed wsrep_sst_increment.sh
var transfer []byte

// StartCluster starts a cluster. It is removed when the test ends.
func StartCluster(t testing.TB, flavour string) *Cluster {
	return StartClusterOn(t, flavour, make([]*network.Host, clusterSize))
}

// StartClusterOn is StartCluster with each node on a host of its own.
func StartClusterOn(t testing.TB, flavour string, hosts []*network.Host) *Cluster {
	admit.Enter(t, admit.Cluster)
	owner, err := files.LookupOwner()
	require.NoError(t, err)
	c := &Cluster{Flavour: flavour, binary: binaryOf(t, flavour), id: uuid.NewString(), user: owner, dir: LauncherDir(t)}
	c.prepareTransfers(t)
	addresses := []string{"127.0.0.1"}
	for n, host := range hosts {
		own := addresses[0]
		if host != nil {
			own = host.Addr.String()
			addresses = append(addresses, own)
		}
		c.Nodes[n] = &Node{On: host, dir: filepath.Join(c.dir, strconv.Itoa(n+1)), group: FreePort(t), states: FreePort(t),
			MySQL: servers.MySQL{Flavour: flavour, Host: own, Port: FreePort(t),
				User: "root_of_test", Password: "a-private-password"}}
	}
	ca, key, leaf := NewKeyPair(t, append(addresses, "localhost", "::1")...)
	for _, node := range c.Nodes {
		node.CA = ca
	}
	all := servers.AllMySQL(t)
	templates := all[slices.IndexFunc(all, func(s servers.MySQL) bool { return s.Flavour == flavour })].Templates
	found, err := filepath.Glob(filepath.Join(templates, flavour+"-*"))
	require.True(t, err == nil && len(found) != 0, "no template in %s: %v", templates, err)
	from := found[0]
	for n, node := range c.Nodes {
		c.initialise(t, n, from, key, leaf)
		if n == 0 && flavour == mysqld.MariaDB { // the others begin with its data and its position
			c.Start(t, n, true)
			node.process.Signal(t, syscall.SIGTERM)
			node.process.Wait(t)
			from = filepath.Join(node.dir, "data")
		}
	}
	for n := range c.Nodes {
		c.Start(t, n, n == 0)
	}
	c.AwaitComplete(t)
	with, err := servers.WithBrokerAccount(t.Context(), c.Nodes[0].MySQL)
	require.NoError(t, err)
	if flavour == mysqld.MySQL {
		require.NoError(t, c.Nodes[0].Exec(t, "GRANT SELECT ON performance_schema.* TO "+with.BrokerUser))
	}
	for _, node := range c.Nodes {
		node.BrokerUser, node.BrokerPassword = with.BrokerUser, with.BrokerPassword
	}
	return c
}

func (c *Cluster) transfers() string { return filepath.Join(c.dir, "transfers") }

func (c *Cluster) prepareTransfers(t testing.TB) {
	err := os.Mkdir(c.transfers(), 0o755)
	if err == nil {
		err = servers.WriteProgram(filepath.Join(c.transfers(), "wsrep_sst_increment"), transfer)
	}
	if err == nil {
		err = os.Chown(c.transfers(), c.user.UID, c.user.GID)
	}
	require.NoError(t, err)
}

// Addresses lists host:port of the nodes.
func (c *Cluster) Addresses() (all []string) {
	for _, node := range c.Nodes {
		all = append(all, node.Address())
	}
	return all
}

// URI names all nodes, with the broker's account.
func (c *Cluster) URI() string {
	return fmt.Sprintf("mysql://%s:%s@%s/", c.Nodes[0].BrokerUser, c.Nodes[0].BrokerPassword,
		strings.Join(c.Addresses(), ","))
}

// Described is MYSQL_SERVERS with the cluster alone, which applications reach at a port of this host or, if that is 0, at
// its nodes.
func (c *Cluster) Described(t testing.TB, port int) string {
	described := map[string]any{"name": "shared-1", "ca_certificate": c.Nodes[0].CA, "uri": c.URI()}
	if port != 0 {
		described["host"], described["port"] = "127.0.0.1", port
	}
	return Encode(t, []any{described})
}

// initialise creates the data directory of a node as a copy of another one.
func (c *Cluster) initialise(t testing.TB, n int, from string, key, leaf []byte) {
	node := c.Nodes[n]
	require.NoError(t, os.MkdirAll(node.dir, 0o755))
	out, err := exec.Command("cp", "-r", "--sparse=always", from, filepath.Join(node.dir, "data")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	settings, err := servers.Settings(c.Flavour)
	require.NoError(t, err)
	// With innodb_flush_log_at_trx_commit=0, a node that is killed would lose transactions that its binary log, or the
	// group, counts as its own: it would return without them. 2 loses them only with the whole machine.
	lines := append([]string{"[mysqld]", "basedir=" + c.binary.BaseDir, "datadir=" + filepath.Join(node.dir, "data"),
		"socket=" + filepath.Join(node.dir, "socket"), "pid-file=" + filepath.Join(node.dir, "pid"), "tmpdir=" + node.dir,
		"secure-file-priv=" + map[string]string{mysqld.MySQL: "NULL", mysqld.MariaDB: node.dir}[c.Flavour],
		"bind-address=" + node.Host, "port=" + strconv.Itoa(node.Port), "skip-name-resolve",
		"ssl-ca=" + filepath.Join(node.dir, "ca.pem"), "ssl-key=" + filepath.Join(node.dir, "key.pem"), "ssl-cert=" + filepath.Join(node.dir, "cert.pem"),
		"server-id=" + strconv.Itoa(n+1), "innodb_flush_log_at_trx_commit=2", "innodb_buffer_pool_size=32M"}, settings...)
	if c.Flavour == mysqld.MariaDB {
		lines = append(lines, c.galera(n)...)
	} else {
		lines = append(lines, c.groupReplication(n)...)
	}
	admin := string(mysqld.AdminSQL(node.User, node.Password))
	if c.Flavour == mysqld.MySQL { // what creates the account must not be a transaction of the group
		admin = "SET sql_log_bin=0;\n" + admin + "SET sql_log_bin=1;\n"
	}
	for name, content := range map[string]string{"my.cnf": strings.Join(lines, "\n") + "\n", "ca.pem": node.CA, "key.pem": string(key),
		"cert.pem": string(leaf), "admin.sql": admin} {
		require.NoError(t, os.WriteFile(filepath.Join(node.dir, name), []byte(content), 0o600))
	}
	require.NoError(t, filepath.WalkDir(node.dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, c.user.UID, c.user.GID))
	}))
}

// galera returns the settings of a Galera node.
// https://mariadb.com/docs/galera-cluster/reference/galera-cluster-system-variables
func (c *Cluster) galera(n int) []string {
	found, _ := filepath.Glob("/usr/lib/galera/libgalera_smm.so")
	library := slices.Concat(found, []string{"/usr/lib/libgalera_smm.so"})[0]
	own := c.Nodes[n]
	return []string{"wsrep_on=ON", "wsrep_provider=" + library, "wsrep_cluster_name=" + c.id[:8],
		"wsrep_cluster_address=gcomm://" + strings.Join(c.protocol(), ","),
		"wsrep_node_address=" + own.Host, "wsrep_node_name=node-" + strconv.Itoa(n+1),
		"wsrep_node_incoming_address=" + own.Address(), "wsrep_sst_method=increment", "binlog_format=ROW",
		"innodb_autoinc_lock_mode=2", "maximum-wsrep_OSU_method=TOI",
		fmt.Sprintf("wsrep_provider_options=\"gmcast.listen_addr=tcp://%s;ist.recv_addr=%s;"+
			"gcache.size=16M\"", own.at(own.group), own.at(own.states))}
}

// groupReplication returns the settings of a member of a group.
// https://dev.mysql.com/doc/refman/8.4/en/group-replication-configuring-instances.html
func (c *Cluster) groupReplication(n int) []string {
	own := c.Nodes[n]
	return []string{"gtid_mode=ON", "enforce_gtid_consistency=ON", "log_bin=binlog", "report_host=" + own.Host,
		"plugin_load_add=group_replication.so", "loose_group_replication_group_name=" + c.id,
		"loose_group_replication_start_on_boot=OFF", "loose_group_replication_bootstrap_group=OFF",
		"loose_group_replication_local_address=" + own.at(own.group),
		"loose_group_replication_ip_allowlist=127.0.0.1," + network.All,
		"loose_group_replication_group_seeds=" + strings.Join(c.protocol(), ","),
		"loose_group_replication_member_expel_timeout=0",
		"loose_group_replication_recovery_get_public_key=ON", "loose_group_replication_recovery_use_ssl=ON",
		"loose_group_replication_exit_state_action=OFFLINE_MODE", "mysqlx=OFF", "sync_binlog=0",
		"performance-schema-instrument='wait/lock/metadata/sql/mdl=ON'"}
}

var wsrepPosition = regexp.MustCompile(`WSREP: Recovered position: (\S+)`)

// Start starts a node. The first one of a cluster that does not run bootstraps it.
func (c *Cluster) Start(t testing.TB, n int, bootstrap bool) {
	c.launch(t, n, bootstrap)
	if c.Flavour == mysqld.MySQL {
		c.Nodes[n].join(t, bootstrap)
	}
}

// launch starts a node. A MySQL server is in no group then.
func (c *Cluster) launch(t testing.TB, n int, bootstrap bool) {
	node := c.Nodes[n]
	args := []string{"--defaults-file=" + filepath.Join(node.dir, "my.cnf")}
	if c.Flavour == mysqld.MariaDB {
		if position := c.recovered(t, n); position != "" {
			args = append(args, "--wsrep_start_position="+position)
		}
		if bootstrap {
			args = append(args, "--wsrep-new-cluster")
		}
	}
	first := false
	if _, err := os.Stat(filepath.Join(node.dir, "started")); err != nil {
		first = true
		require.NoError(t, os.WriteFile(filepath.Join(node.dir, "started"), nil, 0o600))
	}
	if first && (c.Flavour == mysqld.MySQL || bootstrap) {
		args = append(args, "--init-file="+filepath.Join(node.dir, "admin.sql"))
	}
	node.run(t, c.command(args...))
	node.awaitLogin(t)
}

// command returns a command that runs the server's program as its user.
func (c *Cluster) command(args ...string) *exec.Cmd {
	cmd := exec.Command(c.binary.Path, args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + c.transfers() + ":/usr/sbin:/usr/bin:/sbin:/bin",
		"LC_ALL=C", "TRANSFERS=" + c.transfers()}
	cmd.SysProcAttr = c.user.Attributes()
	return cmd
}

// recovered finds out the position of a node that was killed, as mysqld_safe does, so that it gets only what it lacks.
func (c *Cluster) recovered(t testing.TB, n int) string {
	state, err := os.ReadFile(filepath.Join(c.Nodes[n].dir, "data", "grastate.dat"))
	if err != nil || !strings.Contains(string(state), "seqno:   -1") {
		return ""
	}
	out, err := c.command("--defaults-file="+filepath.Join(c.Nodes[n].dir, "my.cnf"), "--wsrep-recover").CombinedOutput()
	found := wsrepPosition.FindSubmatch(out)
	require.True(t, err == nil && found != nil, "find the position of node %d: %v: %s", n+1, err, out)
	// A node that was killed soon after a transfer has none in this file, and would ask for the whole state.
	uuid, seqno, _ := strings.Cut(string(found[1]), ":")
	state = fmt.Appendf(nil, "# GALERA saved state\nversion: 2.1\nuuid: %s\nseqno: %s\nsafe_to_bootstrap: 0\n", uuid, seqno)
	require.NoError(t, os.WriteFile(filepath.Join(c.Nodes[n].dir, "data", "grastate.dat"), state, 0o600))
	return string(found[1])
}

func (n *Node) run(t testing.TB, cmd *exec.Cmd) {
	n.process = startProcessOn(t, n.On, cmd)
	t.Cleanup(func() { n.Kill(t) }) // it would take long to end by itself
}

// Log is what the server has printed since it was started.
func (n *Node) Log() string { return n.process.Log() }

func (n *Node) awaitLogin(t testing.TB) {
	Eventually(t, "somebody can log in", func() bool {
		if !n.Runs() {
			t.Fatalf("the server has ended: %s", n.Log())
		}
		return n.Query(t, "SELECT 1", new(int)) == nil
	})
}

// join makes a MySQL server a member of the group.
func (n *Node) join(t testing.TB, bootstrap bool) {
	if bootstrap {
		require.NoError(t, n.Exec(t, "SET GLOBAL group_replication_bootstrap_group=ON"))
	}
	require.NoError(t, n.start(t), "join the group")
	if bootstrap {
		require.NoError(t, n.Exec(t, "SET GLOBAL group_replication_bootstrap_group=OFF"))
	}
}

// Exec runs a statement as an administrator.
func (n *Node) Exec(t testing.TB, statement string) error {
	return n.with(t, func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, statement)
		return err
	})
}

// Query runs a query of one row as an administrator.
func (n *Node) Query(t testing.TB, query string, into ...any) error {
	return n.with(t, func(ctx context.Context, db *sql.DB) error { return db.QueryRowContext(ctx, query).Scan(into...) })
}

func (n *Node) with(t testing.TB, fn func(context.Context, *sql.DB) error) error {
	return n.within(t, limits.Stuck, fn)
}

func (n *Node) within(t testing.TB, limit time.Duration, fn func(context.Context, *sql.DB) error) error {
	db, err := n.Open()
	require.NoError(t, err)
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return fn(ctx, db)
}

// AwaitComplete waits until every node says that all are members.
func (c *Cluster) AwaitComplete(t testing.TB) { c.await(t, clusterSize, c.Nodes[:]...) }

// await waits until the given nodes say that there are so many members, which have all that was written.
func (c *Cluster) await(t testing.TB, members int, nodes ...*Node) {
	for _, node := range nodes {
		Eventually(t, fmt.Sprintf("node %d is one of %d members", node.Port, members), func() bool {
			n, err := c.members(t, node)
			return err == nil && n == members
		})
	}
}

// members counts the members that a node knows, if it is one that is complete itself.
func (c *Cluster) members(t testing.TB, node *Node) (count int, err error) {
	if c.Flavour == mysqld.MySQL {
		err := node.Query(t, "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'",
			&count)
		return count, err
	}
	err = node.Query(t, `SELECT IF((SELECT variable_value FROM information_schema.global_status
			WHERE variable_name = 'wsrep_local_state_comment') = 'Synced', variable_value, 0)
		FROM information_schema.global_status WHERE variable_name = 'wsrep_cluster_size'`, &count)
	return count, err
}

// Primary returns the number of the node that accepts writes; of Galera, of the first one in the list.
func (c *Cluster) Primary(t testing.TB) int {
	if c.Flavour == mysqld.MariaDB {
		return slices.IndexFunc(c.Nodes[:], (*Node).Runs)
	}
	for n, node := range c.Nodes {
		var primary bool
		if node.Runs() && node.Query(t, `SELECT member_role = 'PRIMARY' FROM performance_schema.replication_group_members
			WHERE member_id = @@server_uuid`, &primary) == nil && primary {
			return n
		}
	}
	return -1
}

// Runs reports whether the process of a node is there.
func (n *Node) Runs() bool { return n.process.Runs() }

// Kill ends a node as a crash would.
func (n *Node) Kill(t testing.TB) { n.process.Kill(t) }

// OpenOnEach opens a pool of an account on every node, and a session in each. An account arrives on other nodes a moment
// after it was made.
func (c *Cluster) OpenOnEach(t testing.TB, account audit.Credentials) (pools []*sql.DB, open []*sql.Conn) {
	for _, node := range c.Nodes {
		db, err := account.At(node.Host, node.Port).Open()
		require.NoError(t, err)
		t.Cleanup(func() { db.Close() })
		pools = append(pools, db)
		Eventually(t, "the account can log in everywhere", func() bool {
			conn, err := db.Conn(context.Background())
			if err == nil {
				open = append(open, conn)
			}
			return err == nil
		})
	}
	return pools, open
}
