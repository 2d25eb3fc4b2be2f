package ha

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/network"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A shared server is a cluster whose nodes are cut off from each other under load. The brokers work on with the majority,
// and what they have ended cannot change anything, on any node.
func TestPartitionedCluster(t *testing.T) {
	t.Parallel()
	for _, s := range servers.AllMySQL(t) {
		if s.Flavour == mysqld.MySQL && !long() { // it takes some minutes
			continue
		}
		t.Run(s.Flavour, func(t *testing.T) {
			t.Parallel()
			w := newScatteredWorld(t, s.Flavour)
			for range rounds(2) {
				w.partition(t, "the primary is cut off from the other nodes",
					func(node int) { w.Cut(w.hosts[node], w.others(node)...) })
				w.partition(t, "the primary is cut off from the other nodes and the brokers",
					func(node int) { w.Cut(w.hosts[node]) })
				w.expectNothingDone(t)
			}
			w.clear(t)
		})
	}
}

// scatteredWorld is a clusterWorld whose nodes and brokers are on hosts of their own. Applications are outside: they
// reach every node.
type scatteredWorld struct {
	*clusterWorld
	*network.Network
	hosts []*network.Host // of the nodes
}

func newScatteredWorld(t *testing.T, flavour string) *scatteredWorld {
	n, hosts := network.New(t, 5)
	c := testdrive.StartClusterOn(t, flavour, hosts[:3])
	w := &scatteredWorld{Network: n, hosts: hosts[:3], clusterWorld: inFrontOf(t, c)}
	u, err := url.Parse(w.env["DATABASE_URL"])
	require.NoError(t, err, "the URL of PostgreSQL is malformed")
	u.Host = testdrive.NewProxyAt(t, n.Outside.Addr.String()+":0", u.Host).Addr()
	brokers := make([]*testdrive.Broker, 2)
	for i := range brokers {
		env := maps.Clone(w.env)
		env["DATABASE_URL"] = u.String()
		brokers[i] = testdrive.StartOn(t, hosts[3+i], env)
	}
	w.world = newWorld(t, brokers...)
	return w
}

func (w *scatteredWorld) others(node int) (all []*network.Host) {
	for n, host := range w.hosts {
		if n != node {
			all = append(all, host)
		}
	}
	return all
}

// writable returns a node that has a majority and accepts writes, or -1.
func (w *scatteredWorld) writable(t *testing.T) int {
	for n, node := range w.Nodes {
		has, err := w.HasMajority(t, node)
		primary := w.Flavour == mysqld.MariaDB
		if err == nil && has && !primary {
			err = node.Query(t, `SELECT member_role = 'PRIMARY' FROM performance_schema.replication_group_members
				WHERE member_id = @@server_uuid`, &primary)
		}
		if err == nil && has && primary {
			return n
		}
	}
	return -1
}

// leadApplications leads applications to a node that is writable until stop is called, as a proxy that checks the nodes
// does.
func (w *scatteredWorld) leadApplications(t *testing.T) (stop func()) {
	done := make(chan struct{})
	var leading sync.WaitGroup
	leading.Go(func() {
		before := -1
		for {
			select {
			case <-done:
				return
			case <-time.After(200 * time.Millisecond):
			}
			if n := w.writable(t); n >= 0 && n != before {
				before = n
				w.proxy.To(w.Nodes[n].Address())
			}
		}
	})
	return func() { close(done); leading.Wait() }
}

// ended is an account that is ended while one node is cut off, and a session of it on every node.
type ended struct {
	audit.Binding
	open []*sql.Conn
}

func (w *scatteredWorld) prepareEnded(t *testing.T) *ended {
	e := &ended{Binding: w.bound(t)}
	require.NoError(t, write(t.Context(), e.Credentials, "before"))
	w.Tell(audit.Instance{ID: e.InstanceID, PlanID: w.small.ID, State: audit.Exists, Note: "before"})
	_, e.open = w.OpenOnEach(t, e.Credentials)
	return e
}

// cannotWrite tells of each node whether no session of an account that was ended writes there: neither those that were
// open before, nor new ones on a node that has not heard of the end.
func (e *ended) cannotWrite(t *testing.T, w *scatteredWorld) (all []bool) {
	for n, node := range w.Nodes {
		fresh, err := e.Credentials.At(node.Host, node.Port).Open()
		require.NoError(t, err)
		cannot := true
		for _, exec := range []func(context.Context, string, ...any) (sql.Result, error){e.open[n].ExecContext,
			fresh.ExecContext} {
			limited, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			_, err := exec(limited, "REPLACE INTO note VALUES ('after the end')")
			cannot = cannot && err != nil
			cancel()
		}
		fresh.Close()
		all = append(all, cannot)
	}
	return all
}

// partition has the network fail around the primary under load, ends an account meanwhile, and heals the network.
func (w *scatteredWorld) partition(t *testing.T, what string, happen func(node int)) {
	e := w.prepareEnded(t)
	end := w.load(t, 3)
	w.awaitDone(t, 24)
	before := w.done.Load()
	happen(w.writable(t))
	interval := limits.Watch()
	defer w.leadApplications(t)()
	w.awaitMoreThan(t, before, 8)
	interval.Done(t, what+": operations go on", failoverTime)
	require.NoError(t, w.Unbind(w.small, e.Binding))
	for n, cannot := range e.cannotWrite(t, w) {
		assert.True(t, cannot, "%s: a session of an account that was ended writes on node %d", what, n+1)
	}
	w.awaitDone(t, 24)
	w.Heal()
	testdrive.Eventually(t, what+", and back: the sessions of an account that was ended end", e.gone)
	w.expectWhole(t, end)
}

// gone reports whether no session is left that was open before the end.
func (e *ended) gone() bool {
	return !slices.ContainsFunc(e.open, func(c *sql.Conn) bool {
		limited, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_, err := c.ExecContext(limited, "DO 1")
		var refused *mysql.MySQLError // by a server, to a session that is there
		return err == nil || errors.As(err, &refused)
	})
}

// expectWhole waits for all nodes after the network is healed, ends the load, and compares what the platform was told
// with what there is.
func (w *scatteredWorld) expectWhole(t *testing.T, end func()) {
	w.Reassemble(t)
	w.awaitDone(t, 24)
	end()
	w.expectOnly503(t)
	w.compare(t)
}

// expectNothingDone cuts two nodes off, so that there is no majority. Nothing is done until the network is healed.
func (w *scatteredWorld) expectNothingDone(t *testing.T) {
	t.Helper()
	end := w.load(t, 3)
	w.awaitDone(t, 24)
	defer w.leadApplications(t)()
	first := w.writable(t)
	w.Cut(w.hosts[first], w.others(first)...)
	second := (first + 1) % 3
	w.Cut(w.hosts[second], w.others(second)...)
	for n := range w.Nodes {
		testdrive.Eventually(t, "the node knows that it has no majority", func() bool {
			has, err := w.HasMajority(t, w.Nodes[n])
			return !has && (err == nil || w.Flavour == mysqld.MySQL)
		})
	}
	done := w.done.Load()
	asked := make([]string, 4)
	var asking sync.WaitGroup
	for n := range asked {
		asked[n] = uuid.NewString()
		asking.Go(func() {
			q := w.small.Provision(asked[n])
			r, err := w.brokers[n%2].Send(q.Method, q.Path, q.Body, nil)
			assert.True(t, err == nil && r.Status == http.StatusServiceUnavailable && r.String("description") != "",
				"without a majority, a request is answered with %d %s: %v", r.Status, r.Raw, err)
		})
	}
	asking.Wait()
	if more := w.done.Load() - done; more > 3 { // what was done already, and only had to be recorded
		t.Errorf("without a majority, %d requests succeeded", more)
	}
	w.Heal()
	for _, instance := range asked {
		require.NoError(t, w.provision(instance))
	}
	w.expectWhole(t, end)
}
