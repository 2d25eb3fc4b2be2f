package store_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

const sweep = "sweep"

var hourly = store.Schedule{Every: time.Hour}

// due makes the next task of a kind due, which RecordScheduled has heard of.
func due(t *testing.T, s *store.Store, kind string) {
	t.Helper()
	_, err := s.Tasks.RecordScheduled(t.Context(), kind, hourly)
	require.ErrorIs(t, err, store.ErrNotFound, "a task is due already")
	require.NoError(t, s.Tasks.MakeDue(t.Context(), kind))
}

func TestOneOfManyBrokersRecordsATaskThatIsDue(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	due(t, s, sweep)
	var recorded atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			task, err := s.Tasks.RecordScheduled(t.Context(), sweep, hourly)
			if err == nil && task.Kind == sweep && task.InstanceID == "" && task.State == store.InProgress {
				recorded.Add(1)
			} else if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%+v, %v", task, err)
			}
		})
	}
	all.Wait()
	n := recorded.Load()
	assert.EqualValues(t, 1, n, "%d brokers recorded a task", n)
}

// At most one task of each kind is in progress. Kinds do not wait for each other.
func TestScheduledTasksOfOneKindFollowOneAnother(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	record := func(kind string) (store.Task, error) {
		t.Helper()
		due(t, s, kind)
		return s.Tasks.RecordScheduled(ctx, kind, hourly)
	}
	first, err := record(sweep)
	require.NoError(t, err)
	_, err = record(sweep)
	assert.ErrorIs(t, err, store.ErrNotFound, "a second task while the first is in progress")
	_, err = record("backup")
	assert.NoError(t, err, "a task of another kind")
	for _, kind := range []string{sweep, "backup"} {
		claimed, err := s.Queue.Claim(ctx, "me", time.Minute, store.Passed{})
		assert.True(t, err == nil && claimed.Kind == kind, "claimed %+v, %v, want a task of kind %q", claimed, err, kind)
	}
	lease := store.Lease{ID: first.ID, Epoch: first.Epoch + 1}
	require.NoError(t, s.Queue.Finish(ctx, lease, store.Succeeded, "", true, nothing))
	next, err := s.Tasks.RecordScheduled(ctx, sweep, hourly)
	assert.True(t, err == nil && next.ID != first.ID,
		"what was asked for during the first, after its end: %+v, %v", next, err)
}

// A task that takes longer than the time to the next one takes the place of that one.
func TestALongScheduledTaskTakesThePlaceOfTheNext(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	due(t, s, sweep)
	_, err := s.Tasks.RecordScheduled(ctx, sweep, hourly)
	require.NoError(t, err)
	exec(t, url, "UPDATE schedule SET next_at = now() - interval '1 min'")
	_, err = s.Tasks.RecordScheduled(ctx, sweep, hourly)
	assert.ErrorIs(t, err, store.ErrNotFound, "a second task while the first is in progress")
	expectRows(t, url, "SELECT kind FROM schedule WHERE next_at > now()", sweep)
}

// A restored PostgreSQL may lack runs that took place after its backup.
func TestNothingIsScheduledDuringAHold(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	due(t, s, sweep)
	require.NoError(t, s.Recovery.SetHold(ctx, "A test holds.", 0))
	_, err := s.Tasks.RecordScheduled(ctx, sweep, hourly)
	assert.ErrorIs(t, err, store.ErrNotFound, "during the hold")
	require.NoError(t, s.Recovery.Resume(ctx, 0))
	_, err = s.Tasks.RecordScheduled(ctx, sweep, hourly)
	assert.NoError(t, err, "after the hold")
}

func TestWhenTheNextTaskIsDue(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	for name, c := range map[string]struct {
		by   store.Schedule
		want string // of the time that was recorded
	}{
		"after a time": {store.Schedule{Every: 90 * time.Minute}, "next_at BETWEEN now() + '89 min' AND now() + '91 min'"},
		"daily at 3:30": {store.Schedule{Every: 24 * time.Hour, At: 3*time.Hour + 30*time.Minute},
			"next_at > now() AND next_at <= now() + '1 day' AND (next_at AT TIME ZONE 'UTC')::time = '03:30'"},
	} {
		for _, before := range []string{"none", "now() + '1 year'"} { // the clock was set back, or a longer interval
			if before != "none" {
				exec(t, url, "UPDATE schedule SET next_at = "+before)
			}
			_, err := s.Tasks.RecordScheduled(ctx, name, c.by)
			require.ErrorIs(t, err, store.ErrNotFound)
			expectRows(t, url, "SELECT kind FROM schedule WHERE kind = '"+name+"' AND "+c.want, name)
		}
	}
}
