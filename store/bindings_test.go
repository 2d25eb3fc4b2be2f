package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
)

// Records of expired bindings that no platform deletes are deleted in the end.
func TestDeleteExpired(t *testing.T) {
	s := parallel(t)
	ready(t, s, "i", "db")
	insertBinding(t, s, store.Binding{InstanceID: "i", ID: "b", Role: "admin", Account: "u"})
	write(t, s, func(tx *store.Tx) { tx.RecordExpired("i", "b") })
	for _, c := range []struct {
		age  time.Duration
		want int64
	}{{time.Hour, 0}, {0, 1}, {0, 0}} {
		n, err := s.Bindings.DeleteExpired(t.Context(), c.age)
		assert.True(t, n == c.want && err == nil,
			"%d records older than %v were deleted instead of %d: %v", n, c.age, c.want, err)
	}
}

// The record of what CredHub has outlives the binding, until it is known to be deleted. It is compared from time to
// time, and always after PostgreSQL was restored.
func TestCredHubEntries(t *testing.T) {
	s, url := fresh(t)
	ctx := t.Context()
	ready(t, s, "i", "db")
	insertBinding(t, s, store.Binding{InstanceID: "i", ID: "plain", Account: "u_1"})
	insertBinding(t, s, store.Binding{InstanceID: "i", ID: "b", Account: "u_2", CredHubName: "/c/u_2",
		CredHubReader: "mtls-app:a"})
	unchecked := func(age time.Duration) []store.CredHubEntry {
		found, err := s.CredHub.Unchecked(ctx, age, 10)
		require.NoError(t, err)
		return found
	}
	assert.Empty(t, unchecked(-time.Minute), "before the binding is ready")
	write(t, s, func(tx *store.Tx) { tx.SetBindingState("i", "b", store.Ready) })
	begin := func() (attempt int64) {
		attempt, err := s.CredHub.BeginStore(ctx, "/c/u_2")
		require.NoError(t, err)
		return attempt
	}
	stored := func(attempt int64) { require.NoError(t, s.CredHub.SetStored(ctx, "/c/u_2", attempt, []byte{1})) }
	earlier, later := begin(), begin()
	stored(later)
	stored(earlier) // CredHub may have handled it last
	found := unchecked(time.Minute)
	assert.True(t, len(found) == 1 && found[0].Stored == nil, "after two attempts at once: %+v", found)
	stored(begin())
	assert.Empty(t, unchecked(time.Minute), "already")
	found = unchecked(-time.Minute)
	assert.True(t, len(found) == 1 && found[0].Reader == "mtls-app:a" && found[0].BindingID == "b" &&
		slices.Equal(found[0].Stored, []byte{1}), "found %+v", found)
	exec(t, url, "UPDATE credhub_entry SET checked_at = now() + '1 day'")
	assert.Len(t, unchecked(time.Minute), 1, "after PostgreSQL's clock was set back")
	require.NoError(t, s.Recovery.SetHold(ctx, "A test holds.", 0))
	require.NoError(t, s.Recovery.Resume(ctx, 0))
	found = unchecked(time.Minute)
	assert.True(t, len(found) == 1 && found[0].Stored == nil, "after a hold: %+v", found)

	ended := func(keep time.Duration) int {
		found, err := s.CredHub.Ended(ctx, keep, 10)
		require.NoError(t, err)
		return len(found)
	}
	left := func() (since *time.Duration) {
		require.NoError(t, s.CredHub.Each(ctx, func(page []store.RecordedCredHub) error {
			since = page[0].Ended
			return nil
		}))
		return since
	}
	assert.Equal(t, 0, ended(time.Hour), "a binding that is there has ended")
	write(t, s, func(tx *store.Tx) { tx.DeleteInstance("i") })
	first, again := ended(time.Hour), ended(time.Hour)
	assert.True(t, first == 1 && again == 1 && left() != nil, "what CredHub still has is not to be deleted")
	require.NoError(t, s.CredHub.Forget(ctx, "/c/u_2", time.Hour))
	assert.True(t, ended(time.Hour) == 0 && left() == nil, "what CredHub does not have is to be deleted again at once")
	begin() // by a broker that was paused
	assert.Equal(t, 1, ended(time.Hour), "what was stored again is not to be deleted")
	require.NoError(t, s.CredHub.SetDeleted(ctx, "/c/u_2"))
	assert.Equal(t, 1, ended(0), "it is not deleted once more")
	require.NoError(t, s.CredHub.Forget(ctx, "/c/u_2", 0))
	assert.Equal(t, 0, ended(0), "the record is there still")
}

func TestCredHubPaths(t *testing.T) {
	s := parallel(t)
	ready(t, s, "i", "db")
	for account, path := range map[string]string{"u_1": "/c/a", "u_2": "/c/a", "u_3": "/c/a/b"} {
		insertBinding(t, s, store.Binding{InstanceID: "i", ID: account, Account: account,
			CredHubName: path + "/" + account + "/credentials", CredHubReader: "mtls-app:a"})
	}
	paths, err := s.CredHub.Paths(t.Context())
	assert.True(t, err == nil && slices.Equal(paths, []string{"/c/a", "/c/a/b"}), "%v, %v", paths, err)
}
