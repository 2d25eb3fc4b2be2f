package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// listen opens a store that hears what PostgreSQL announces. The channel gets a value when it has heard something.
func listen(t *testing.T, url string) (s *store.Store, heard <-chan bool) {
	t.Helper()
	s = servers.OpenStore(t, url)
	calls := make(chan bool, 1)
	s.OnAnnounced(func() {
		select {
		case calls <- true:
		default:
		}
	})
	testdrive.Receive(t, calls, "announcements arrive")
	require.True(t, s.Hears(), "announcements do not arrive")
	return s, calls
}

// What another process leaves to any broker is announced; what it does itself is not.
func TestTasksForAnyBrokerAreAnnounced(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	_, heard := listen(t, url)
	other := servers.OpenStore(t, url)
	own := provisionOf("own")
	own.Owner, own.LeaseTTL = "other", time.Hour
	mine := newTask(t, other, own)
	_, err := other.Queue.Extend(ctx, "other", []store.Lease{held(mine)}, time.Hour)
	require.NoError(t, err)
	require.NoError(t, other.Queue.Finish(ctx, held(mine), store.Succeeded, "", true, nothing))
	for what, do := range map[string]func(*testing.T, store.Task) error{
		"postponed": func(t *testing.T, task store.Task) error {
			return other.Queue.Postpone(ctx, held(task), time.Hour, 1, "")
		},
		"released": func(t *testing.T, task store.Task) error { return other.Queue.Release(ctx, held(task)) },
		"released after it was cancelled": func(t *testing.T, task store.Task) error {
			if err := other.InTx(ctx, func(tx *store.Tx) error { tx.CancelTask(task.ID, ""); return nil }); err != nil {
				return err
			}
			return other.Queue.ReleaseCancelled(ctx, held(task), "other")
		},
	} {
		n := provisionOf(what)
		n.Owner, n.LeaseTTL = "other", time.Hour
		task := newTask(t, other, n)
		select {
		case <-heard:
			t.Errorf("something was announced before a task was %s", what)
		default:
		}
		require.NoError(t, do(t, task))
		testdrive.Receive(t, heard, "a task that was "+what)
	}
	waiting := newTask(t, other, provisionOf("waiting"))
	testdrive.Receive(t, heard, "a task that was recorded without a lease")
	exec(t, url, "UPDATE task SET run_at = now() + interval '1 hour' WHERE instance_id = 'waiting'")
	_, err = other.Tasks.RetryNow(ctx, waiting.ID)
	require.NoError(t, err)
	testdrive.Receive(t, heard, "a task that is to be tried at once")
}

// Whoever listens learns that the connection was lost, looks itself meanwhile, and hears again by another one.
func TestLostListenerIsReplaced(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s, heard := listen(t, url)
	conn := connect(t, url)
	for range 2 {
		var ended int
		err := conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN %'`).Scan(&ended)
		require.True(t, err == nil && ended == 1, "ended %d connections, %v", ended, err)
		testdrive.Receive(t, heard, "announcements do not arrive any more")
		assert.False(t, s.Hears(), "the connection is lost, and announcements are said to arrive")
		testdrive.Receive(t, heard, "announcements arrive again")
		assert.True(t, s.Hears(), "announcements arrive, and are said not to")
		newTask(t, servers.OpenStore(t, url), provisionOf(time.Now().String()))
		testdrive.Receive(t, heard, "a task")
	}
}

func TestAgenda(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s, ctx := servers.OpenStore(t, url), t.Context()
	// about reports whether a time is that one, give or take a minute.
	about := func(got *time.Duration, want time.Duration) bool {
		return got != nil && (*got-want).Abs() < time.Minute
	}
	look := func() store.Agenda {
		t.Helper()
		a, err := s.Queue.Agenda(ctx, 2*time.Hour, 2*time.Hour)
		require.NoError(t, err)
		return a
	}
	a := look()
	assert.True(t, a.Task == nil && a.Expiry == nil && !a.ClockSetBack, "there is nothing: %+v", a)
	leased := provisionOf("leased")
	leased.Owner, leased.LeaseTTL = "other", time.Hour
	mine := newTask(t, s, leased)
	a = look()
	assert.True(t, about(a.Task, time.Hour), "a lease of an hour: %+v", a)
	require.NoError(t, s.Queue.Postpone(ctx, held(mine), 30*time.Minute, 1, ""))
	a = look()
	assert.True(t, about(a.Task, 30*time.Minute), "a task in half an hour: %+v", a)
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
	exec(t, url, `INSERT INTO binding (instance_id, id, state, role, account, password, expires_at)
		VALUES ('i', 'b', 'ready', '', 'u', '', now() + interval '10 minutes')`)
	newTask(t, s, provisionOf("waiting"))
	a = look()
	assert.True(t, about(a.Task, 0) && *a.Task <= 0 && about(a.Expiry, 10*time.Minute) && !a.ClockSetBack,
		"a task that is due, and a binding that expires in ten minutes: %+v", a)
	exec(t, url, "UPDATE task SET run_at = now() + interval '3 hours' WHERE instance_id = 'waiting'")
	a = look()
	assert.True(t, a.ClockSetBack, "a task waits for longer than any may: %+v", a)
	require.NoError(t, s.Recovery.SetHold(ctx, "test", 0))
	a = look()
	assert.True(t, a.Task == nil && a.Expiry == nil, "nothing is to be done during a hold: %+v", a)
}
