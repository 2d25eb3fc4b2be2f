package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// An object counts if the server has begun again since it was asked, and has the same version.
func TestFatalObjects(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db_i"})
	for object, ago := range map[string]time.Duration{"view v": time.Minute, "table t": time.Hour} {
		require.NoError(t, s.FatalObjects.Record(t.Context(), "i", "1.2", object, ago))
	}
	expect := func(version string, uptime time.Duration, want ...string) {
		t.Helper()
		got, err := s.FatalObjects.List(t.Context(), "i", version, uptime)
		assert.True(t, err == nil && slices.Equal(got, want), "version %s, up for %s: %q, %v", version, uptime, got, err)
	}
	expect("1.2", time.Second, "table t", "view v")
	expect("1.2", 10*time.Minute, "table t") // the connection to the server that was asked for v broke by itself
	expect("1.3", time.Second)
	require.NoError(t, s.FatalObjects.Forget(t.Context(), "i"))
	expect("1.2", time.Second)
}
