package store_test

import (
	"errors"
	"testing"
	"time"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// setBack makes a database look as if its clock had been set back by an hour: everything in it lies an hour ahead.
func setBack(t *testing.T, url string) {
	t.Helper()
	exec(t, url, `UPDATE task SET run_at = run_at + '1 hour', created_at = created_at + '1 hour',
		lease_until = lease_until + '1 hour'`)
}

func TestClockSetBackKeepsNoTaskWaiting(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	newTask(t, s, provisionOf("leased"))
	if _, err := s.Claim(ctx, "dead", time.Minute); err != nil {
		t.Fatal(err)
	}
	newTask(t, s, provisionOf("waiting"))
	if n, err := s.MendClock(ctx, time.Minute, time.Minute); err != nil || n != 0 {
		t.Errorf("%d tasks were mended under a right clock, %v", n, err)
	}
	setBack(t, url)
	if _, err := s.Claim(ctx, "worker", time.Minute); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("claimed before the clock was mended: %v", err)
	}
	if n, err := s.MendClock(ctx, time.Minute, time.Minute); err != nil || n != 2 {
		t.Errorf("%d tasks were mended, %v", n, err)
	}
	claimed, err := s.Claim(ctx, "worker", time.Minute)
	if err != nil || claimed.InstanceID != "waiting" {
		t.Errorf("claimed %q, %v: the dead worker's lease has not run out yet", claimed.InstanceID, err)
	}
	if claimed, err := s.Claim(ctx, "worker", time.Minute); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("claimed %q, %v: the dead worker's lease has not run out yet", claimed.InstanceID, err)
	}
	exec(t, url, "UPDATE task SET lease_until = lease_until - '1 minute'::interval") // a minute later
	claimed, err = s.Claim(ctx, "worker", time.Minute)
	if err != nil || claimed.InstanceID != "leased" {
		t.Errorf("claimed %q, %v instead of the dead worker's task", claimed.InstanceID, err)
	}
}
