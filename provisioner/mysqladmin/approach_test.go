package mysqladmin_test

import (
	"errors"
	"testing"
)

// Who only approaches a fence leaves its holder alone, and nothing behind.
func TestApproachKillsNobody(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		holder := f.fence(f.database, leaseHolds)
		approach := f.server.Approach(t.Context(), f.database)
		f.must(approach.Err())
		f.must(holder.CreateDatabase(t.Context(), f.database, "", ""))
		f.must(approach.Close())
		f.must(holder.CreateDatabase(t.Context(), f.database, "", ""))

		second := f.server.Approach(t.Context(), f.database)
		session, err := second.Fence(t.Context(), leaseHolds)
		f.must(err)
		if err := holder.CreateDatabase(t.Context(), f.database, "", ""); err == nil {
			t.Error("the holder of a fence that another one took goes on")
		}
		f.must(session.CreateDatabase(t.Context(), f.database, "", ""))
		f.must(session.Close())
	})
}

// The lock may be there before the lease is: without the lease, nothing is done under it.
func TestApproachWantsTheLease(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		lost := errors.New("lost")
		approach := f.server.Approach(t.Context(), f.database)
		if _, err := approach.Fence(t.Context(), func() error { return lost }); !errors.Is(err, lost) {
			t.Errorf("%v", err)
		}
		f.fence(f.database, leaseHolds)
	})
}
