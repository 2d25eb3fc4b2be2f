package store_test

import (
	"slices"
	"testing"
	"time"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// The record of what CredHub has outlives the binding, until it is known to be deleted. It is compared from time to
// time, and always after PostgreSQL was restored.
func TestCredHubEntries(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
	inTx(t, s, func(tx *store.Tx) error {
		if err := tx.InsertBinding(store.Binding{InstanceID: "i", ID: "plain", Account: "u_1"}); err != nil {
			return err
		}
		return tx.InsertBinding(store.Binding{InstanceID: "i", ID: "b", Account: "u_2", CredHubName: "/c/u_2",
			CredHubReader: "mtls-app:a"})
	})
	unchecked := func(age time.Duration) []store.CredHubEntry {
		t.Helper()
		found, err := s.CredHub.Unchecked(ctx, age, 10)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := unchecked(-time.Minute); len(found) != 0 {
		t.Errorf("before the binding is ready: %+v", found)
	}
	inTx(t, s, func(tx *store.Tx) error {
		tx.SetBindingState("i", "b", store.Ready)
		return nil
	})
	begin := func() (attempt int64) {
		t.Helper()
		attempt, err := s.CredHub.BeginStore(ctx, "/c/u_2")
		if err != nil {
			t.Fatal(err)
		}
		return attempt
	}
	stored := func(attempt int64) {
		t.Helper()
		if err := s.CredHub.SetStored(ctx, "/c/u_2", attempt, []byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	earlier, later := begin(), begin()
	stored(later)
	stored(earlier) // CredHub may have handled it last
	if found := unchecked(time.Minute); len(found) != 1 || found[0].Stored != nil {
		t.Errorf("after two attempts at once: %+v", found)
	}
	stored(begin())
	if found := unchecked(time.Minute); len(found) != 0 {
		t.Errorf("already: %+v", found)
	}
	found := unchecked(-time.Minute)
	if len(found) != 1 || found[0].Reader != "mtls-app:a" || found[0].BindingID != "b" ||
		!slices.Equal(found[0].Stored, []byte{1}) {
		t.Errorf("found %+v", found)
	}
	if err := s.Recovery.SetHold(ctx, "A test holds.", 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Recovery.Resume(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if found := unchecked(time.Minute); len(found) != 1 || found[0].Stored != nil {
		t.Errorf("after a hold: %+v", found)
	}

	ended := func(keep time.Duration) int {
		t.Helper()
		found, err := s.CredHub.Ended(ctx, keep, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	left := func() (since *time.Duration) {
		t.Helper()
		if err := s.CredHub.Each(ctx, func(page []store.RecordedCredHub) error {
			since = page[0].Ended
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return since
	}
	if ended(time.Hour) != 0 {
		t.Error("a binding that is there has ended")
	}
	inTx(t, s, func(tx *store.Tx) error {
		tx.DeleteInstance("i")
		return nil
	})
	if first, again := ended(time.Hour), ended(time.Hour); first != 1 || again != 1 || left() == nil {
		t.Error("what CredHub still has is not to be deleted")
	}
	if err := s.CredHub.Forget(ctx, "/c/u_2", time.Hour); err != nil {
		t.Fatal(err)
	}
	if ended(time.Hour) != 0 || left() != nil {
		t.Error("what CredHub does not have is to be deleted again at once")
	}
	begin() // by a broker that was paused
	if ended(time.Hour) != 1 {
		t.Error("what was stored again is not to be deleted")
	}
	if err := s.CredHub.SetDeleted(ctx, "/c/u_2"); err != nil {
		t.Fatal(err)
	}
	if ended(0) != 1 {
		t.Error("it is not deleted once more")
	}
	if err := s.CredHub.Forget(ctx, "/c/u_2", 0); err != nil {
		t.Fatal(err)
	}
	if ended(0) != 0 {
		t.Error("the record is there still")
	}
}

func TestCredHubPaths(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
	inTx(t, s, func(tx *store.Tx) error {
		for account, path := range map[string]string{"u_1": "/c/a", "u_2": "/c/a", "u_3": "/c/a/b"} {
			if err := tx.InsertBinding(store.Binding{InstanceID: "i", ID: account, Account: account,
				CredHubName: path + "/" + account + "/credentials", CredHubReader: "mtls-app:a"}); err != nil {
				return err
			}
		}
		return nil
	})
	if paths, err := s.CredHub.Paths(t.Context()); err != nil || !slices.Equal(paths, []string{"/c/a", "/c/a/b"}) {
		t.Errorf("%v, %v", paths, err)
	}
}
