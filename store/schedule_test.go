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
	"mysql-broker/test/testdrive"
)

const sweep = "sweep"

var hourly = store.Schedule{Every: time.Hour}

// due makes the next task of a kind due, which RecordScheduled has heard of.
func due(t *testing.T, s *store.Store, kind string) {
	_, err := s.Tasks.RecordScheduled(t.Context(), kind, hourly)
	require.ErrorIs(t, err, store.ErrNotFound, "a task is due already")
	require.NoError(t, s.Tasks.MakeDue(t.Context(), kind))
}

func TestOneOfManyBrokersRecordsATaskThatIsDue(t *testing.T) {
	s := parallel(t)
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
	assert.EqualValues(t, 1, recorded.Load(), "brokers that recorded a task")
}

// At most one task of each kind is in progress. Kinds do not wait for each other.
func TestScheduledTasksOfOneKindFollowOneAnother(t *testing.T) {
	s, ctx := parallel(t), t.Context()
	record := func(kind string) (store.Task, error) {
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
		assert.Equal(t, kind, claim(t, s, "me", time.Minute).Kind)
	}
	lease := store.Lease{ID: first.ID, Epoch: first.Epoch + 1}
	require.NoError(t, s.Queue.Finish(ctx, lease, store.Succeeded, "", true, nothing))
	next, err := s.Tasks.RecordScheduled(ctx, sweep, hourly)
	assert.True(t, err == nil && next.ID != first.ID,
		"what was asked for during the first, after its end: %+v, %v", next, err)
}

// A task that takes longer than the time to the next one takes the place of that one.
func TestALongScheduledTaskTakesThePlaceOfTheNext(t *testing.T) {
	s, url := fresh(t)
	due(t, s, sweep)
	_, err := s.Tasks.RecordScheduled(t.Context(), sweep, hourly)
	require.NoError(t, err)
	exec(t, url, "UPDATE schedule SET next_at = now() - interval '1 min'")
	_, err = s.Tasks.RecordScheduled(t.Context(), sweep, hourly)
	assert.ErrorIs(t, err, store.ErrNotFound, "a second task while the first is in progress")
	expectRows(t, url, "SELECT kind FROM schedule WHERE next_at > now()", sweep)
}

// A restored PostgreSQL may lack runs that took place after its backup.
func TestNothingIsScheduledDuringAHold(t *testing.T) {
	s, ctx := parallel(t), t.Context()
	due(t, s, sweep)
	require.NoError(t, s.Recovery.SetHold(ctx, "A test holds.", 0))
	_, err := s.Tasks.RecordScheduled(ctx, sweep, hourly)
	assert.ErrorIs(t, err, store.ErrNotFound, "during the hold")
	require.NoError(t, s.Recovery.Resume(ctx, 0))
	_, err = s.Tasks.RecordScheduled(ctx, sweep, hourly)
	assert.NoError(t, err, "after the hold")
}

func TestWhenTheNextTaskIsDue(t *testing.T) {
	s, url := fresh(t)
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
			_, err := s.Tasks.RecordScheduled(t.Context(), name, c.by)
			require.ErrorIs(t, err, store.ErrNotFound)
			expectRows(t, url, "SELECT kind FROM schedule WHERE kind = '"+name+"' AND "+c.want, name)
		}
	}
}

// After PostgreSQL's clock was set back by an hour, everything in it lies an hour ahead.
func TestClockSetBackKeepsNoTaskWaiting(t *testing.T) {
	s, url := fresh(t)
	newTask(t, s, provisionOf("leased"))
	claim(t, s, "dead", time.Minute)
	newTask(t, s, provisionOf("waiting"))
	n, err := s.Queue.MendClock(t.Context(), time.Minute, time.Minute)
	assert.True(t, err == nil && n == 0, "%d tasks were mended under a right clock, %v", n, err)
	exec(t, url, `UPDATE task SET run_at = run_at + '1 hour', created_at = created_at + '1 hour',
		lease_until = lease_until + '1 hour', progressed_at = now() + '1 hour'`)
	stats, err := s.Tasks.Stats(t.Context())
	assert.True(t, err == nil && stats.Oldest >= 0 && stats.Stalled >= 0, "before the clock was mended: %+v, %v", stats, err)
	expectNoTask(t, s, "before the clock was mended")
	n, err = s.Queue.MendClock(t.Context(), time.Minute, time.Minute)
	assert.True(t, err == nil && n == 2, "%d tasks were mended, %v", n, err)
	assert.Equal(t, "waiting", claim(t, s, "worker", time.Minute).InstanceID, "the dead worker's lease has not run out yet")
	expectNoTask(t, s, "before the dead worker's lease has run out")
	exec(t, url, "UPDATE task SET lease_until = lease_until - interval '1 min', progressed_at = progressed_at - interval '1 min'")
	stats, err = s.Tasks.Stats(t.Context())
	assert.True(t, err == nil && stats.Stalled >= time.Minute, "a minute later: %+v, %v", stats, err)
	assert.Equal(t, "leased", claim(t, s, "worker", time.Minute).InstanceID, "the dead worker's task")
}

// What is kept while PostgreSQL's clock is weeks behind is kept from now on, and not from a time in the past.
func TestNothingIsKeptFromAPastTime(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, servers.PostgresAhead(t, url, "-20 days"))
	exec(t, url, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name, next_server,
		next_dedicated_id, next_launcher) VALUES ('deleted', 's', 'p', 'ready', 'one', 'db_1', NULL, NULL, NULL),
		('moved', 's', 'p', 'ready', 'one', 'db_2', 'two', '', '')`)
	require.NoError(t, s.InTx(ctx, func(tx *store.Tx) error {
		for _, id := range []string{"deleted", "moved"} {
			if _, err := tx.LockInstance(ctx, id); err != nil {
				return err
			}
		}
		tx.InsertBackup(store.Backup{ID: "b_1", InstanceID: "moved", PlanID: "p", Reason: "user"}, 7*24*time.Hour)
		tx.Retain("deleted", store.Retained{ID: "r_1"}, 7, nil)
		tx.SwapPlaces("moved")
		return nil
	}))
	conn := connect(t, url)
	var backup, retained, moved time.Time
	require.NoError(t, conn.QueryRow(ctx, `SELECT keep_until - interval '7 days', until - interval '7 days', moved_at
		FROM backup, retained, instance`).Scan(&backup, &retained, &moved))
	for what, from := range map[string]time.Time{"the backup": backup, "what is retained": retained, "the former place": moved} {
		assert.True(t, time.Since(from) <= time.Hour, "%s is kept from %v on", what, from)
	}
}

// listen opens a store that hears what PostgreSQL announces. The channel gets a value when it has heard something.
func listen(t *testing.T, url string) (s *store.Store, heard <-chan bool) {
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
	mine := newTask(t, other, leased("own", "other"))
	_, err := other.Queue.Extend(ctx, "other", []store.Lease{held(mine)}, time.Hour)
	require.NoError(t, err)
	require.NoError(t, other.Queue.Finish(ctx, held(mine), store.Succeeded, "", true, nothing))
	for what, do := range map[string]func(store.Task) error{
		"postponed": func(task store.Task) error { return other.Queue.Postpone(ctx, held(task), time.Hour, 1, "") },
		"released":  func(task store.Task) error { return other.Queue.Release(ctx, held(task)) },
		"released after it was cancelled": func(task store.Task) error {
			write(t, other, func(tx *store.Tx) { tx.CancelTask(task.ID, "") })
			return other.Queue.ReleaseCancelled(ctx, held(task), "other")
		},
	} {
		task := newTask(t, other, leased(what, "other"))
		assert.Empty(t, heard, "something was announced before a task was %s", what)
		require.NoError(t, do(task))
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
	s, url := fresh(t)
	const none = -time.Hour
	expect := func(what string, task, expiry time.Duration, setBack bool) {
		a, err := s.Queue.Agenda(t.Context(), 2*time.Hour, 2*time.Hour)
		require.NoError(t, err)
		about := func(got *time.Duration, want time.Duration) bool {
			return got == nil && want == none || got != nil && (*got-want).Abs() < time.Minute && (want > 0 || *got <= 0)
		}
		assert.True(t, about(a.Task, task) && about(a.Expiry, expiry) && a.ClockSetBack == setBack, "%s: %+v", what, a)
	}
	expect("there is nothing", none, none, false)
	mine := newTask(t, s, leased("leased", "other"))
	expect("a lease of an hour", time.Hour, none, false)
	require.NoError(t, s.Queue.Postpone(t.Context(), held(mine), 30*time.Minute, 1, ""))
	expect("a task in half an hour", 30*time.Minute, none, false)
	ready(t, s, "i", "db")
	exec(t, url, `INSERT INTO binding (instance_id, id, state, role, account, password, expires_at)
		VALUES ('i', 'b', 'ready', '', 'u', '', now() + interval '10 minutes')`)
	newTask(t, s, provisionOf("waiting"))
	expect("a task that is due, and a binding that expires in ten minutes", 0, 10*time.Minute, false)
	exec(t, url, "UPDATE task SET run_at = now() + interval '3 hours' WHERE instance_id = 'waiting'")
	expect("a task waits for longer than any may", 30*time.Minute, 10*time.Minute, true)
	require.NoError(t, s.Recovery.SetHold(t.Context(), "test", 0))
	expect("nothing is to be done during a hold", none, none, true)
}
