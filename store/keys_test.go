package store_test

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
)

// expectMissing and expectForeign check what is wrong with a keyset.
func expectMissing(t *testing.T, err error, what string) {
	assert.ErrorAs(t, err, new(*store.MissingKeyError), what)
}

func expectForeign(t *testing.T, err error, what string) {
	assert.ErrorAs(t, err, new(*store.ForeignKeysetError), what)
}

// If brokers with different keysets start at the same time on an empty database, one keyset is accepted, for good.
func TestAdoptKeysetAtOnce(t *testing.T) {
	t.Parallel()
	const brokers = 8
	url := servers.Postgres(t)
	stores := make([]*store.Store, brokers)
	for n := range stores {
		stores[n] = servers.OpenStoreWith(t, url, newKeyset(t))
	}
	errs := make([]error, brokers)
	var all sync.WaitGroup
	for n, s := range stores {
		all.Go(func() { errs[n] = s.Keys.AdoptKeyset(t.Context()) })
	}
	all.Wait()
	adopted := 0
	for n, err := range errs {
		again := stores[n].Keys.AdoptKeyset(t.Context())
		assert.Equal(t, err == nil, again == nil, "first %v, then %v", err, again)
		if err == nil {
			adopted++
		} else {
			expectForeign(t, err, "another keyset")
		}
	}
	assert.Equal(t, 1, adopted, "keysets that were accepted")
}

// The CA of dedicated servers, which the first broker makes, hides neither a foreign keyset nor a binding's missing
// key.
func TestAdoptKeysetBesideAnAuthority(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s, foreign := servers.OpenStoreWith(t, url, newKeyset(t)), servers.OpenStoreWith(t, url, newKeyset(t))
	require.NoError(t, s.Authorities.AddFirst(t.Context(), "certificate", "key"))
	expectMissing(t, foreign.Keys.AdoptKeyset(t.Context()), "before one is recorded")
	assert.NoError(t, s.Keys.AdoptKeyset(t.Context()))
	expectForeign(t, foreign.Keys.AdoptKeyset(t.Context()), "after it is recorded")
	insert(t, s, "one", 1)
	expectMissing(t, foreign.Keys.AdoptKeyset(t.Context()), "where passwords are stored")
}

// What steps in order make is read by TestRotateKeys.
func TestKeysetStepsOutOfOrder(t *testing.T) {
	t.Parallel()
	old := newKeyset(t)
	added := changed(t, store.AddKey, old)
	promoted := changed(t, store.PromoteKey, added)
	for name, wrong := range map[string]func() (string, error){
		"add twice":                   func() (string, error) { return store.AddKey(added) },
		"promote what was not added":  func() (string, error) { return store.PromoteKey(old) },
		"promote twice":               func() (string, error) { return store.PromoteKey(promoted) },
		"drop before it was promoted": func() (string, error) { return store.DropOldKeys(added) },
		"add to what is no keyset":    func() (string, error) { return store.AddKey("c2VjcmV0") },
		"add to what is no base64":    func() (string, error) { return store.AddKey("hunter2!") },
	} {
		text, err := wrong()
		require.True(t, err != nil && text == "", "%s: %q, %v", name, text, err)
		assert.NotRegexp(t, "hunter2|"+regexp.QuoteMeta(old), err.Error(), "%s: the error quotes the keyset", name)
	}
}

func newKeyset(t *testing.T) string {
	text, err := store.NewKeyset()
	require.NoError(t, err)
	return text
}

func changed(t *testing.T, change func(string) (string, error), text string) string {
	after, err := change(text)
	require.NoError(t, err)
	require.NotEqual(t, text, after, "the keyset is as it was")
	return after
}

// insert records an instance with both admin passwords and so many bindings.
func insert(t *testing.T, s *store.Store, id string, bindings int) {
	insertInstance(t, s, store.Instance{ID: id, Location: store.DedicatedLocation("process", "d_"+id), Database: "db_" + id,
		AdminPassword: "admin of " + id})
	inTx(t, s, func(tx *store.Tx) error {
		for n := range bindings {
			if err := tx.InsertBinding(bindingOf(id, n)); err != nil {
				return err
			}
		}
		return tx.SetNextAdminPassword(id, "next of "+id)
	})
}

func bindingOf(id string, n int) store.Binding {
	return store.Binding{InstanceID: id, ID: fmt.Sprintf("b %d", n), Role: "admin",
		Account: fmt.Sprintf("u_%s_%d", id, n), Password: fmt.Sprintf("password %d of %s", n, id)}
}

// expectReadable fails the test unless the store can read what insert recorded.
func expectReadable(t *testing.T, s *store.Store, id string, bindings int) {
	i, err := s.Instances.Get(t.Context(), id)
	assert.True(t, err == nil && i.AdminPassword == "admin of "+id && i.NextAdminPassword == "next of "+id,
		"instance %s: %q, %q, %v", id, i.AdminPassword, i.NextAdminPassword, err)
	for n := range bindings {
		want := bindingOf(id, n)
		b, err := s.Bindings.Get(t.Context(), id, want.ID)
		assert.True(t, err == nil && b.Password == want.Password, "binding %d of %s: %q, %v", n, id, b.Password, err)
	}
}

func TestRotateKeys(t *testing.T) {
	t.Parallel()
	const bindings = 1200 // several batches
	url, old := servers.Postgres(t), newKeyset(t)
	added := changed(t, store.AddKey, old)
	promoted := changed(t, store.PromoteKey, added)
	dropped := changed(t, store.DropOldKeys, promoted)
	insert(t, servers.OpenStoreWith(t, url, old), "one", bindings)
	require.NoError(t, servers.OpenStoreWith(t, url, old).Keys.AdoptKeyset(t.Context()))
	for _, keyset := range []string{old, added, promoted} { // brokers start with each, one after the other
		s := servers.OpenStoreWith(t, url, keyset)
		require.NoError(t, s.Keys.AdoptKeyset(t.Context()))
		expectReadable(t, s, "one", 3)
	}
	insert(t, servers.OpenStoreWith(t, url, added), "three", 0)
	expectReadable(t, servers.OpenStoreWith(t, url, old), "three", 0) // not yet added everywhere
	insert(t, servers.OpenStoreWith(t, url, promoted), "two", 1)
	expectReadable(t, servers.OpenStoreWith(t, url, added), "two", 1) // not yet promoted everywhere

	expectMissing(t, servers.OpenStoreWith(t, url, dropped).Keys.Check(t.Context()), "a keyset without the old key")
	s := servers.OpenStoreWith(t, url, promoted)
	for _, want := range []int{bindings + 2 + 2, 0} {
		n, err := s.Keys.Rotate(t.Context())
		assert.True(t, err == nil && n == want, "%d passwords, %v, want %d", n, err, want)
	}
	after := servers.OpenStoreWith(t, url, dropped)
	assert.NoError(t, after.Keys.Check(t.Context()))
	expectReadable(t, after, "one", bindings)
	expectReadable(t, after, "two", 1)
	expectReadable(t, after, "three", 0)
	expectMissing(t, servers.OpenStoreWith(t, url, old).Keys.Check(t.Context()), "the old keyset")
}

// Two concurrent rotations are stopped after each change, and later ones continue. As long as anything needs the old
// key, the check before it is dropped says so.
func TestRotateKeysKilled(t *testing.T) {
	t.Parallel()
	url, old := servers.Postgres(t), newKeyset(t)
	promoted := changed(t, store.PromoteKey, changed(t, store.AddKey, old))
	dropped := changed(t, store.DropOldKeys, promoted)
	first := servers.OpenStoreWith(t, url, old)
	insert(t, first, "one", 2)
	require.NoError(t, first.Authorities.AddFirst(t.Context(), "certificate", "key"))
	require.NoError(t, first.Keys.AdoptKeyset(t.Context()))
	exec(t, url, "CREATE SEQUENCE changes", `CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('changes') > 1 THEN RAISE 'killed'; END IF; RETURN new; END $$`)
	for _, table := range []string{"instance", "binding", "authority", "secret"} {
		exec(t, url, "CREATE TRIGGER die BEFORE UPDATE ON "+table+" FOR EACH ROW EXECUTE FUNCTION die()")
	}
	s, after := servers.OpenStoreWith(t, url, promoted), servers.OpenStoreWith(t, url, dropped)
	left := 6 // passwords of the instance and its bindings, the key of the CA, the record of the keyset
	for ; left > 0; left-- {
		if err := after.Keys.Check(t.Context()); left > 2 {
			expectMissing(t, err, "a password needs the old key")
		} else {
			expectForeign(t, err, "a record needs it")
		}
		expectReadable(t, s, "one", 2)
		exec(t, url, "ALTER SEQUENCE changes RESTART")
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if _, err := s.Keys.Rotate(t.Context()); left > 1 { // the last change lets one or both succeed
					assert.ErrorContains(t, err, "killed")
				}
			})
		}
		both.Wait()
	}
	assert.NoError(t, after.Keys.Check(t.Context()))
	expectReadable(t, after, "one", 2)
}

// A broker changes a row after the rotation has read it and before it would write it. Nobody waits
// for it for longer than 4 s: if a machine stalls for as long, it is tried again.
func TestRotateKeysBesideAWriter(t *testing.T) {
	t.Parallel()
	for tries, stalled := 1, true; stalled; tries++ {
		since := time.Now()
		err := rotateBesideAWriter(t)
		stalled = err != nil && time.Since(since) >= 3*time.Second && tries < 3
		require.True(t, stalled || err == nil, "try %d, after %v: %v", tries, time.Since(since), err)
	}
}

// rotateBesideAWriter returns the error of the writer or of the rotation.
func rotateBesideAWriter(t *testing.T) error {
	url, old, ctx := servers.Postgres(t), newKeyset(t), t.Context()
	added := changed(t, store.AddKey, old)
	promoted := changed(t, store.PromoteKey, added)
	writer, rotating := servers.OpenStoreWith(t, url, added), servers.OpenStoreWith(t, url, promoted)
	insert(t, writer, "one", 0)
	conn := connect(t, url)
	var rotation errgroup.Group
	var rotated int
	if err := writer.InTx(ctx, func(tx *store.Tx) error {
		tx.AdoptNextAdminPassword("one")
		if err := tx.Alive(ctx); err != nil { // the row is locked
			return err
		}
		rotation.Go(func() (err error) {
			rotated, err = rotating.Keys.Rotate(ctx)
			return err
		})
		return awaitBlocked(ctx, conn)
	}); err != nil {
		return err
	}
	if err := rotation.Wait(); err != nil {
		return err
	}
	assert.Equal(t, 1, rotated, "passwords that were rotated")
	after := servers.OpenStoreWith(t, url, changed(t, store.DropOldKeys, promoted))
	i, err := after.Instances.Get(ctx, "one")
	assert.True(t, err == nil && i.AdminPassword == "next of one" && i.NextAdminPassword == "",
		"what was written meanwhile is now %q, %q, %v", i.AdminPassword, i.NextAdminPassword, err)
	return nil
}

// awaitBlocked returns when a connection to the database waits for a lock.
func awaitBlocked(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, limits.Stuck)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for blocked := false; !blocked; {
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&blocked); err != nil {
			return err
		}
		<-tick.C
	}
	return nil
}

func TestRotateKeysStopsAtWhatItCannotOpen(t *testing.T) {
	t.Parallel()
	url, old := servers.Postgres(t), newKeyset(t)
	promoted := changed(t, store.PromoteKey, changed(t, store.AddKey, old))
	s := servers.OpenStoreWith(t, url, old)
	insert(t, s, "one", 2)
	// The ciphertext of another row does not open in this one.
	exec(t, url, "UPDATE instance SET admin_password = (SELECT password FROM binding LIMIT 1)")
	n, err := servers.OpenStoreWith(t, url, promoted).Keys.Rotate(t.Context())
	assert.True(t, err != nil && n == 0, "%d passwords, %v", n, err)
	// With a keyset that lacks the key, nothing is changed at all.
	foreign := servers.OpenStoreWith(t, url, newKeyset(t))
	n, err = foreign.Keys.Rotate(t.Context())
	assert.Zero(t, n)
	expectMissing(t, err, "a rotation")
	_, err = foreign.Bindings.Get(t.Context(), "one", bindingOf("one", 0).ID)
	assert.Error(t, err, "a store with another keyset read a password")
	for n := range 2 {
		_, err = s.Bindings.Get(t.Context(), "one", bindingOf("one", n).ID)
		assert.NoError(t, err, "the old keyset")
	}
}
