package mysqladmin_test

import (
	"errors"
	"testing"
)

// A pending lock does not disturb the lock's holder, and leaves nothing behind.
func TestPendingLockKillsNobody(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		holder := f.lock(f.database, leaseHolds)
		pending := f.server.BeginLock(t.Context(), f.database)
		f.must(pending.Err())
		f.must(holder.CreateDatabase(t.Context(), f.database, "", ""))
		f.must(pending.Close())
		f.must(holder.CreateDatabase(t.Context(), f.database, "", ""))

		second := f.server.BeginLock(t.Context(), f.database)
		session, err := second.Lock(t.Context(), leaseHolds)
		f.must(err)
		if err := holder.CreateDatabase(t.Context(), f.database, "", ""); err == nil {
			t.Error("the holder of a lock that another session took goes on")
		}
		f.must(session.CreateDatabase(t.Context(), f.database, "", ""))
		f.must(session.Close())
	})
}

// The lock may be acquired before the lease. Without the lease, nothing is executed under it.
func TestPendingLockWantsTheLease(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		lost := errors.New("lost")
		pending := f.server.BeginLock(t.Context(), f.database)
		if _, err := pending.Lock(t.Context(), func() error { return lost }); !errors.Is(err, lost) {
			t.Errorf("%v", err)
		}
		f.lock(f.database, leaseHolds)
	})
}
