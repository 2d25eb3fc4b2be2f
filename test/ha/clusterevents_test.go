package ha

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/testdrive"
)

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
