package ha

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// failoverTime is how long operations may be held up after a primary was killed or cut off.
const failoverTime = 15 * time.Second

// A shared server is a cluster of three nodes. Its primary is killed under load, and comes back, and then all nodes of
// MySQL are.
func TestCluster(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		w := newClusterWorld(t, s.Flavour)
		if s.Flavour == mysqld.MySQL {
			w.expectPrimaryNamed(t)
		}
		w.expectSessionsEnd(t, "before a failover")
		w.expectAccountsEverywhere(t)
		database, on := w.bound(t).Credentials.Database, w.Primary(t)
		w.expectEvent(t, database, on, "CREATE TABLE %s.tick (n int AUTO_INCREMENT PRIMARY KEY, port int NOT NULL)",
			"CREATE EVENT %s.ticks ON SCHEDULE EVERY 1 SECOND DO INSERT INTO tick (port) VALUES (@@port)")
		took := []time.Duration{w.failOver(t)}
		if on = (on + 1) % len(w.Nodes); s.Flavour == mysqld.MySQL {
			on = w.Primary(t)
		}
		w.expectEvent(t, database, on, "ALTER EVENT %s.ticks ENABLE") // as docs/ha.md says
		for range rounds(5) - 1 {
			took = append(took, w.failOver(t))
		}
		slices.Sort(took)
		t.Logf("%s: operations went on after %v; median %v, worst %v; %d requests", s.Flavour, took, took[len(took)/2],
			took[len(took)-1], w.done.Load())
		w.expectSessionsEnd(t, "after it")
		for _, b := range w.brokers {
			assert.False(t, strings.Contains(b.Log(), "but the broker's uri lists"),
				"a node that just joined was taken for one that uri lacks")
		}
		for range rounds(2) {
			if s.Flavour == mysqld.MySQL { // which once stopped to commit after that
				w.losesAll(t)
			}
		}
		w.clear(t)
	})
}

// clusterWorld is a platform whose brokers have a cluster as their shared server. Applications reach it by a proxy,
// which the test leads to the primary.
type clusterWorld struct {
	*world
	*testdrive.Cluster
	proxy *testdrive.Proxy
	env   map[string]string
}

func newClusterWorld(t *testing.T, flavour string) *clusterWorld {
	w := inFrontOf(t, testdrive.StartCluster(t, flavour))
	w.world = newWorld(t, testdrive.Start(t, w.env), testdrive.Start(t, w.env))
	return w
}

// inFrontOf makes the proxy, and the environment of brokers.
func inFrontOf(t *testing.T, c *testdrive.Cluster) *clusterWorld {
	w := &clusterWorld{Cluster: c, proxy: testdrive.NewProxy(t, c.Nodes[0].Address())}
	w.env = testdrive.Environment(t, c.Nodes[0].MySQL)
	w.env["ANSWER_TIMEOUT"] = "2s" // some servers do not respond
	w.env["MYSQL_SERVERS"] = c.Described(t, w.proxy.Port())
	return w
}

// failOver kills the primary under load, and starts it again. It returns how long operations were held up.
func (w *clusterWorld) failOver(t *testing.T) time.Duration {
	end := w.load(t, 4)
	w.awaitDone(t, 24)
	old := w.Primary(t)
	w.Nodes[old].Kill(t)
	killed, interval, done := time.Now(), limits.Watch(), w.done.Load()
	var following sync.WaitGroup
	following.Go(func() { w.follow(t, old) })
	defer following.Wait()
	w.awaitMoreThan(t, done, 8)
	took := time.Since(killed)
	interval.Prompt(t, "operations go on", took, failoverTime)
	w.awaitDone(t, 24)
	end()
	w.expectLost(t, w.Nodes[old].Address())
	w.Start(t, old, false)
	w.AwaitComplete(t)
	w.expectLost(t)
	w.expectOnly503(t)
	w.compare(t)
	return took
}

// expectLost expects that the doctor finds these nodes of the cluster, and no other one.
func (w *clusterWorld) expectLost(t *testing.T, addresses ...string) {
	var found struct {
		Findings []struct{ Problem, Kind, Server, Name string }
	}
	out := testdrive.Run(t, w.env, "doctor", "--json")
	err := json.Unmarshal([]byte(out.Stdout), &found)
	require.NoError(t, err, "%v: %s%s", err, out.Stdout, out.Stderr)
	var lost []string
	for _, f := range found.Findings {
		if f.Kind == "node" && f.Problem == "unreachable" && f.Server == "shared-1" {
			lost = append(lost, f.Name)
		}
	}
	assert.True(t, slices.Equal(lost, addresses),
		"the doctor misses the nodes %q instead of %q: %s", lost, addresses, out.Stdout)
}

// losesAll kills all nodes under load, and starts the cluster again.
func (w *clusterWorld) losesAll(t *testing.T) {
	t.Helper()
	end := w.load(t, 4)
	w.awaitDone(t, 24)
	for _, node := range w.Nodes {
		node.Kill(t)
	}
	began := time.Now()
	w.StartAll(t)
	whole, interval, done := time.Since(began), limits.Watch(), w.done.Load()
	w.follow(t, 0)
	w.awaitMoreThan(t, done, 8)
	took := time.Since(began)
	interval.Prompt(t, "operations go on after all nodes were started again", took-whole, failoverTime)
	w.awaitDone(t, 100)
	end()
	w.expectOnly503(t)
	w.compare(t)
	t.Logf("%s: all nodes were killed: three again after %.1f s, operations went on after %.1f s; %d requests", w.Flavour,
		whole.Seconds(), took.Seconds(), w.done.Load())
}

// follow leads applications to the new primary, as a proxy that checks the nodes does: with Galera, to the node that
// brokers try next.
func (w *clusterWorld) follow(t *testing.T, old int) {
	for deadline := time.Now().Add(limits.Stuck); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		n := (old + 1) % len(w.Nodes)
		if w.Flavour == mysqld.MySQL {
			n = w.Primary(t)
		}
		if n >= 0 {
			w.proxy.To(w.Nodes[n].Address())
			return
		}
	}
	t.Error("there is no primary")
}

// compare compares what the platform was told with what there is, once no task is in progress.
func (w *clusterWorld) compare(t *testing.T) {
	records := testdrive.OpenTasks(t, w.env)
	records.Until(t, "no task is in progress", "SELECT NOT EXISTS (SELECT FROM task WHERE state = 'in progress')")
	admin, err := w.Nodes[w.Primary(t)].Open()
	require.NoError(t, err)
	defer admin.Close()
	w.Audit = testdrive.AuditOf(t, w.env, admin)
	w.Check(t, "after a failure of nodes")
}

// expectSessionsEnd opens a session of an account on every node, and unbinds it.
func (w *clusterWorld) expectSessionsEnd(t *testing.T, when string) {
	binding := w.bound(t)
	pools, open := w.OpenOnEach(t, binding.Credentials)
	require.NoError(t, w.Unbind(w.small, binding))
	expectEnded(t, when, open)
	for n, pool := range pools {
		assert.Error(t, pool.Ping(), "%s: the account can log in at node %d", when, n+1)
	}
}

// expectAccountsEverywhere binds while a node applies nothing, and expects that the account can log in to every node
// once the binding is there.
func (w *clusterWorld) expectAccountsEverywhere(t *testing.T) {
	t.Helper()
	instance := uuid.NewString()
	require.NoError(t, w.provision(instance))
	primary := w.Nodes[w.Primary(t)]
	accounts := func() (count int) {
		require.NoError(t, primary.Query(t, "SELECT COUNT(*) FROM mysql.user", &count))
		return count
	}
	late := w.Nodes[(w.Primary(t)+1)%len(w.Nodes)].Admin(t)
	late.SetMaxOpenConns(1)
	before := accounts()
	testdrive.Exec(t, late, "FLUSH TABLES WITH READ LOCK")
	bound := make(chan error, 1)
	var binding audit.Binding
	go func() {
		var err error
		binding, err = w.Bind(w.small, instance)
		bound <- err
	}()
	testdrive.Eventually(t, "the account is on the primary", func() bool { return accounts() > before })
	select {
	case err := <-bound:
		t.Errorf("the binding is there before a node has its account: %v", err)
		bound <- err
	case <-time.After(500 * time.Millisecond):
	}
	testdrive.Exec(t, late, "UNLOCK TABLES")
	require.NoError(t, <-bound)
	for n, node := range w.Nodes {
		db, err := binding.Credentials.At(node.Host, node.Port).Open()
		if err == nil {
			err = db.Ping()
			db.Close()
		}
		assert.NoError(t, err, "the account of a new binding cannot log in to node %d", n+1)
	}
}

// expectPrimaryNamed opens a cluster of MySQL by a uri that lacks the primary. The error says which node that is.
func (w *clusterWorld) expectPrimaryNamed(t *testing.T) {
	primary := w.Nodes[w.Primary(t)]
	others := slices.DeleteFunc(w.Addresses(), func(address string) bool { return address == primary.Address() })
	server, err := mysqladmin.Open(mysqladmin.Config{Addr: others[0], Nodes: others, User: primary.User,
		Password: primary.Password, CA: []byte(primary.CA)})
	require.NoError(t, err)
	defer server.Close()
	_, err = server.Flavour(t.Context())
	assert.ErrorContains(t, err, "the primary of its group is "+primary.Address())
}

// expectEvent has an event of a database run on a node, and expects that no other node runs it, and that copies and
// backups know that it runs.
func (w *clusterWorld) expectEvent(t *testing.T, database string, on int, statements ...string) {
	node, first := w.Nodes[on], w.Nodes[0]
	for _, each := range w.Nodes {
		require.NoError(t, each.Exec(t, "SET GLOBAL event_scheduler = ON"))
	}
	for _, statement := range statements {
		require.NoError(t, node.Exec(t, fmt.Sprintf(statement, database)))
	}
	testdrive.Eventually(t, "the node alone runs the event", func() bool {
		var alone bool
		err := node.Query(t, fmt.Sprintf(`SELECT COUNT(*) = 4 FROM (SELECT port FROM %s.tick ORDER BY n DESC LIMIT 4) AS newest
			WHERE port = %d`, database, node.Port), &alone)
		return err == nil && alone
	})
	server, err := mysqladmin.Open(mysqladmin.Config{Addr: first.Address(), Nodes: w.Addresses(), User: first.User,
		Password: first.Password, CA: []byte(first.CA)})
	require.NoError(t, err)
	defer server.Close()
	running, unknown, err := server.RunningEvents(t.Context(), database)
	assert.NoError(t, err)
	assert.Equal(t, []string{"ticks"}, running)
	assert.Empty(t, unknown)
}
