package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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
	if !s.Hears() {
		t.Fatal("announcements do not arrive")
	}
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
	if _, err := other.Queue.Extend(ctx, "other", []store.Lease{held(mine)}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := other.Queue.Finish(ctx, held(mine), store.Succeeded, "", true, nothing); err != nil {
		t.Fatal(err)
	}
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
		if err := do(t, task); err != nil {
			t.Fatal(err)
		}
		testdrive.Receive(t, heard, "a task that was "+what)
	}
	waiting := newTask(t, other, provisionOf("waiting"))
	testdrive.Receive(t, heard, "a task that was recorded without a lease")
	exec(t, url, "UPDATE task SET run_at = now() + interval '1 hour' WHERE instance_id = 'waiting'")
	if _, err := other.Tasks.RetryNow(ctx, waiting.ID); err != nil {
		t.Fatal(err)
	}
	testdrive.Receive(t, heard, "a task that is to be tried at once")
}

// Whoever listens learns that the connection was lost, looks itself meanwhile, and hears again by another one.
func TestLostListenerIsReplaced(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s, heard := listen(t, url)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for range 2 {
		var ended int
		if err := conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN %'`).Scan(&ended); err != nil || ended != 1 {
			t.Fatalf("ended %d connections, %v", ended, err)
		}
		testdrive.Receive(t, heard, "announcements do not arrive any more")
		if s.Hears() {
			t.Error("the connection is lost, and announcements are said to arrive")
		}
		testdrive.Receive(t, heard, "announcements arrive again")
		if !s.Hears() {
			t.Error("announcements arrive, and are said not to")
		}
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
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := look(); a.Task != nil || a.Expiry != nil || a.ClockSetBack {
		t.Errorf("there is nothing: %+v", a)
	}
	leased := provisionOf("leased")
	leased.Owner, leased.LeaseTTL = "other", time.Hour
	mine := newTask(t, s, leased)
	if a := look(); !about(a.Task, time.Hour) {
		t.Errorf("a lease of an hour: %+v", a)
	}
	if err := s.Queue.Postpone(ctx, held(mine), 30*time.Minute, 1, ""); err != nil {
		t.Fatal(err)
	}
	if a := look(); !about(a.Task, 30*time.Minute) {
		t.Errorf("a task in half an hour: %+v", a)
	}
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
	exec(t, url, `INSERT INTO binding (instance_id, id, state, role, account, password, expires_at)
		VALUES ('i', 'b', 'ready', '', 'u', '', now() + interval '10 minutes')`)
	newTask(t, s, provisionOf("waiting"))
	if a := look(); !about(a.Task, 0) || *a.Task > 0 || !about(a.Expiry, 10*time.Minute) || a.ClockSetBack {
		t.Errorf("a task that is due, and a binding that expires in ten minutes: %+v", a)
	}
	exec(t, url, "UPDATE task SET run_at = now() + interval '3 hours' WHERE instance_id = 'waiting'")
	if a := look(); !a.ClockSetBack {
		t.Errorf("a task waits for longer than any may: %+v", a)
	}
	if err := s.Recovery.SetHold(ctx, "test", 0); err != nil {
		t.Fatal(err)
	}
	if a := look(); a.Task != nil || a.Expiry != nil {
		t.Errorf("nothing is to be done during a hold: %+v", a)
	}
}
