package operator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// An evacuation passes over what somebody else has deleted or moved since it listed the server.
func TestEvacuatePassesOverWhatHasLeft(t *testing.T) {
	t.Parallel()
	c := &console{store: servers.Store(t)}
	all, err := shared.Open([]shared.Config{{Admin: mysqladmin.Config{Name: "new", Addr: "127.0.0.1:1", User: "u",
		Password: "p"}}}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = all.Close() })
	require.NoError(t, c.store.InTx(t.Context(), func(tx *store.Tx) error {
		return tx.InsertInstance(store.Instance{ID: "moved", Location: store.SharedLocation("new"), Database: "db"})
	}))
	for _, id := range []string{"deleted", "moved"} {
		sentence, err := c.moveAway(t.Context(), all, id, "old", []string{"new"})
		assert.True(t, sentence == "" && err == nil, "%s: %q, %v", id, sentence, err)
	}
	_, err = c.moveAway(t.Context(), all, "moved", "new", []string{"new"})
	assert.Error(t, err, "what is still on the server is passed over")
}
