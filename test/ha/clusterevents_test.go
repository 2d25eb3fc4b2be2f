package ha

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/testdrive"
)

// clusterEvent is an event in the database of an instance, which writes down every second which node runs it.
type clusterEvent struct {
	*clusterWorld
	database string
	on       int // the node
}

func (w *clusterWorld) makeEvent(t *testing.T) *clusterEvent {
	e := &clusterEvent{w, w.bound(t).Credentials.Database, w.Primary(t)}
	for _, statement := range []string{"SET GLOBAL event_scheduler = ON",
		"CREATE TABLE " + e.database + ".tick (n int AUTO_INCREMENT PRIMARY KEY, port int NOT NULL)",
		"CREATE EVENT " + e.database + ".ticks ON SCHEDULE EVERY 1 SECOND DO INSERT INTO tick (port) VALUES (@@port)"} {
		require.NoError(t, w.Nodes[e.on].Exec(t, statement))
	}
	e.expectTicks(t, "a new event")
	e.expectCopied(t)
	return e
}

// expectCopied expects that copies and backups know that the event runs.
func (e *clusterEvent) expectCopied(t *testing.T) {
	first := e.Nodes[0]
	server, err := mysqladmin.Open(mysqladmin.Config{Addr: first.Address(), Nodes: e.Addresses(), User: first.User,
		Password: first.Password, CA: []byte(first.CA)})
	require.NoError(t, err)
	defer server.Close()
	running, unknown, err := server.RunningEvents(t.Context(), e.database)
	assert.True(t, err == nil && slices.Equal(running, []string{"ticks"}) && len(unknown) == 0,
		"these events run: %q, and perhaps %q, %v", running, unknown, err)
}

// expectTicks expects that its node runs the event, and no other.
func (e *clusterEvent) expectTicks(t *testing.T, what string) {
	t.Helper()
	reader := e.Nodes[e.Primary(t)]
	var last, ports, port int
	require.NoError(t, reader.Query(t, "SELECT COALESCE(MAX(n), 0) FROM "+e.database+".tick", &last))
	testdrive.Eventually(t, what+" runs", func() bool {
		var count int
		err := reader.Query(t, "SELECT COUNT(*) FROM "+e.database+".tick WHERE n > "+strconv.Itoa(last), &count)
		return err == nil && count >= 6
	})
	if err := reader.Query(t, "SELECT COUNT(DISTINCT port), MAX(port) FROM (SELECT port FROM "+e.database+
		".tick ORDER BY n DESC LIMIT 4) AS newest", &ports, &port); err != nil || ports != 1 || port != e.Nodes[e.on].Port {
		t.Errorf("%s runs on %d nodes, one of them with port %d instead of %d, %v", what, ports, port, e.Nodes[e.on].Port, err)
	}
}

// expectMoves enables the event on another node than the one that ran it, after that was lost and came back. Servers do
// not do that: on Galera, the event runs on the same node again, and with Group Replication on none, because another one
// is the primary now.
func (e *clusterEvent) expectMoves(t *testing.T) {
	for _, node := range e.Nodes {
		require.NoError(t, node.Exec(t, "SET GLOBAL event_scheduler = ON"))
	}
	to := e.Primary(t)
	if e.Flavour == mysqld.MariaDB {
		e.expectTicks(t, "the event of a node that came back")
		to = (e.on + 1) % len(e.Nodes)
	} else {
		var status string
		err := e.Nodes[to].Query(t, "SELECT status FROM information_schema.events WHERE event_name = 'ticks'", &status)
		assert.True(t, err == nil && status != "ENABLED",
			"the event of a former primary is %s on the new one, %v", status, err)
	}
	require.NoError(t, e.Nodes[to].Exec(t, "ALTER EVENT "+e.database+".ticks ENABLE"))
	e.on = to
	e.expectTicks(t, "an event that was enabled elsewhere")
	require.NoError(t, e.Nodes[to].Exec(t, "DROP EVENT "+e.database+".ticks"))
}
