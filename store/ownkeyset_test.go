package store_test

import (
	"errors"
	"testing"

	"mysql-broker/store"
)

func isForeign(err error) bool {
	_, ok := errors.AsType[*store.ForeignKeysetError](err)
	return ok
}

// Of brokers with different keysets that start at the same time on an empty database, one is accepted, then and later.
func TestAdoptKeysetAtOnce(t *testing.T) {
	t.Parallel()
	const brokers = 8
	url := migrated(t)
	stores := make([]*store.Store, brokers)
	for n := range stores {
		stores[n] = open(t, url, newKeyset(t))
	}
	outcomes := make([]chan error, brokers)
	for n, s := range stores {
		outcomes[n] = make(chan error, 1)
		go func() { outcomes[n] <- s.AdoptKeyset(t.Context()) }()
	}
	adopted := 0
	for n, outcome := range outcomes {
		err := <-outcome
		if again := stores[n].AdoptKeyset(t.Context()); (again == nil) != (err == nil) {
			t.Errorf("first %v, then %v", err, again)
		}
		switch {
		case err == nil:
			adopted++
		case !isForeign(err):
			t.Error(err)
		}
	}
	if adopted != 1 {
		t.Errorf("%d keysets were accepted", adopted)
	}
}

// A database belongs to its keyset before anything is stored, and through a rotation.
func TestAdoptKeysetThroughARotation(t *testing.T) {
	t.Parallel()
	url, old := migrated(t), newKeyset(t)
	added := changed(t, store.AddKey, old)
	promoted := changed(t, store.PromoteKey, added)
	dropped := changed(t, store.DropOldKeys, promoted)
	if err := open(t, url, old).CheckKeys(t.Context()); err != nil {
		t.Errorf("before any broker: %v", err)
	}
	for _, keyset := range []string{old, added, promoted, old} {
		if err := open(t, url, keyset).AdoptKeyset(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := open(t, url, dropped).AdoptKeyset(t.Context()); !isForeign(err) {
		t.Errorf("without the old key, before rotate-keys: %v", err)
	}
	if n, err := open(t, url, promoted).RotateKeys(t.Context()); err != nil || n != 0 {
		t.Errorf("%d passwords, %v", n, err)
	}
	for _, keyset := range []string{added, promoted, dropped} {
		if err := open(t, url, keyset).AdoptKeyset(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, keyset := range []string{old, newKeyset(t)} {
		s := open(t, url, keyset)
		if err := s.AdoptKeyset(t.Context()); !isForeign(err) {
			t.Errorf("a keyset without the key in use: %v", err)
		}
		if _, err := s.RotateKeys(t.Context()); !isForeign(err) {
			t.Errorf("rotated by a keyset without the key in use: %v", err)
		}
	}
}

// A database that was used before its keyset was recorded belongs to the one that reads its passwords.
func TestAdoptKeysetOfAnOlderRelease(t *testing.T) {
	t.Parallel()
	url, own := migrated(t), newKeyset(t)
	insert(t, open(t, url, own), "one", 1)
	if err := open(t, url, newKeyset(t)).AdoptKeyset(t.Context()); !isMissing(err) {
		t.Errorf("a foreign keyset: %v", err)
	}
	if err := open(t, url, own).AdoptKeyset(t.Context()); err != nil {
		t.Error(err)
	}
}

// The CA of dedicated servers, which the first broker makes, hides neither a foreign keyset nor a binding's missing key.
func TestAdoptKeysetBesideAnAuthority(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	s, foreign := open(t, url, newKeyset(t)), open(t, url, newKeyset(t))
	if err := s.AddFirstAuthority(t.Context(), "certificate", "key"); err != nil {
		t.Fatal(err)
	}
	if err := foreign.AdoptKeyset(t.Context()); !isMissing(err) {
		t.Errorf("a foreign keyset before one is recorded: %v", err)
	}
	if err := s.AdoptKeyset(t.Context()); err != nil {
		t.Error(err)
	}
	if err := foreign.AdoptKeyset(t.Context()); !isForeign(err) {
		t.Errorf("a foreign keyset: %v", err)
	}
	insert(t, s, "one", 1)
	if err := foreign.AdoptKeyset(t.Context()); !isMissing(err) {
		t.Errorf("a foreign keyset where passwords are stored: %v", err)
	}
}
