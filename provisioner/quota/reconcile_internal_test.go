package quota

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// An instance that a failed restore freezes after its accounts were listed gets no write privileges: its server is not
// even asked.
func TestReconcileLeavesWhatWasFrozenMeanwhile(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	err := s.InTx(t.Context(), func(tx *store.Tx) error {
		err := tx.InsertInstance(store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
		tx.SetInstanceState("i", store.Ready)
		tx.SetFrozen("i", true)
		return err
	})
	require.NoError(t, err)
	g := Guard{Config: Config{Store: s}}
	assert.NoError(t, g.reconcile(t.Context(), store.DueAccount{InstanceID: "i", Account: "a"}))
}
