package operator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/retained"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// A purge that is refused during a hold does not end the days of the data.
func TestRefusedRunChangesNothing(t *testing.T) {
	t.Parallel()
	c := &console{store: servers.Store(t)}
	changed := false
	run := func() error {
		_, err := c.runNow(t.Context(), retained.PurgeRetained, func() error { changed = true; return nil })
		return err
	}
	require.NoError(t, c.store.Recovery.SetHold(t.Context(), "a test", 0))
	require.ErrorIs(t, run(), store.ErrHeld)
	assert.False(t, changed, "it was changed during the hold")
	require.NoError(t, c.store.Recovery.Resume(t.Context(), 1<<20))
	require.NotErrorIs(t, run(), store.ErrHeld)
	assert.True(t, changed)
}
