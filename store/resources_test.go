package store_test

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
)

// expectResources compares all but ages, sorted by names.
func expectResources(t *testing.T, s *store.Store, want ...store.Resource) {
	var got []store.Resource
	for _, server := range []string{"", "a", "b"} {
		got = append(got, slices.Concat(listed(t, s.Resources.Each, server)...)...)
	}
	for i := range got {
		assert.True(t, 0 <= got[i].Age && got[i].Age <= time.Hour, "%s is %v old", got[i].Name, got[i].Age)
		got[i].Age = 0
	}
	slices.SortFunc(got, func(a, b store.Resource) int { return cmp.Compare(a.Name, b.Name) })
	assert.Equal(t, want, got)
}

func TestResourcesAreRecordedWithTheirIntent(t *testing.T) {
	s := parallel(t)
	inTx(t, s, func(tx *store.Tx) error {
		err := tx.InsertInstance(store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
		again := tx.InsertInstance(store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "other"})
		dedicated := tx.InsertInstance(store.Instance{ID: "j", Location: store.DedicatedLocation("far", "d"), Database: "its"})
		return errors.Join(err, again, dedicated,
			tx.InsertBinding(store.Binding{InstanceID: "i", ID: "b", Account: "u"}),
			tx.InsertBinding(store.Binding{InstanceID: "j", ID: "b", Account: "goes with its server"}))
	})
	expectResources(t, s,
		store.Resource{Kind: store.DedicatedResource, Name: "d", Launcher: "far", InstanceID: "j", Live: true},
		store.Resource{Kind: store.DatabaseResource, Server: "a", Name: "db", InstanceID: "i", Live: true},
		store.Resource{Kind: store.AccountResource, Server: "a", Name: "u", InstanceID: "i", BindingID: "b", Live: true})
}

// A resource's record follows its instance and binding, and outlives both.
func TestResourcesAreLiveAndExpected(t *testing.T) {
	s := parallel(t)
	db := store.Resource{Kind: store.DatabaseResource, Server: "a", Name: "db", InstanceID: "i", Live: true}
	u := store.Resource{Kind: store.AccountResource, Server: "a", Name: "u", InstanceID: "i", BindingID: "b", Live: true}
	inTx(t, s, func(tx *store.Tx) error {
		err := tx.InsertInstance(store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
		return errors.Join(err, tx.InsertBinding(store.Binding{InstanceID: "i", ID: "b", Account: "u"}))
	})
	expectResources(t, s, db, u)

	write(t, s, func(tx *store.Tx) {
		tx.SetInstanceState("i", store.Ready)
		tx.SetBindingState("i", "b", store.Ready)
	})
	db.Expected, u.Expected = true, true
	expectResources(t, s, db, u)

	unbind := newTask(t, s, store.NewTask{InstanceID: "i", BindingID: "b", Kind: store.Unbind, PlanID: "p"})
	u.Expected = false
	expectResources(t, s, db, u)

	write(t, s, func(tx *store.Tx) {
		tx.CancelTask(unbind.ID, "")
		tx.RecordRetiredAccount("i", "u")
		tx.DeleteBinding("i", "b")
	})
	u.BindingID = ""
	expectResources(t, s, db, u)

	newTask(t, s, store.NewTask{InstanceID: "i", Kind: store.Deprovision, PlanID: "p"})
	db.Expected = false
	expectResources(t, s, db, u)

	write(t, s, func(tx *store.Tx) { tx.DeleteInstance("i") })
	db.Live, u.Live = false, false
	expectResources(t, s, db, u)

	// Another instance of the same id does not want them.
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db2"})
	expectResources(t, s, db, store.Resource{Kind: store.DatabaseResource, Server: "a", Name: "db2", InstanceID: "i",
		Live: true}, u)
	r, err := s.Resources.Get(t.Context(), u.Kind, u.Server, u.Name)
	assert.True(t, err == nil && !r.Live && r.InstanceID == "i", "one resource: %+v, %v", r, err)
	_, err = s.Resources.Get(t.Context(), u.Kind, "b", u.Name)
	assert.ErrorIs(t, err, store.ErrNotFound, "an account on another server")
}

// What a task fills beside its instance is no orphan before the task has ended.
func TestScratchIsLiveWhileItsTaskRuns(t *testing.T) {
	s := parallel(t)
	restore := newTask(t, s, store.NewTask{InstanceID: "i", Kind: store.Restore, PlanID: "p"})
	require.NoError(t, s.Backups.RecordScratch(t.Context(), held(restore), "a", "db", "u", "i"))
	db := store.Resource{Kind: store.DatabaseResource, Server: "a", Name: "db", InstanceID: "i", Live: true}
	u := store.Resource{Kind: store.AccountResource, Server: "a", Name: "u", InstanceID: "i", Live: true}
	expectResources(t, s, db, u)

	require.NoError(t, s.Queue.Finish(t.Context(), held(restore), store.Failed, "", true, nothing))
	newTask(t, s, store.NewTask{InstanceID: "i", Kind: store.Restore, PlanID: "p"})
	db.Live, u.Live = false, false
	expectResources(t, s, db, u)
}

// What a restore in place could not put back is no orphan while its instance is frozen, deleted and taken back too.
func TestWhatARestoreKeptIsLiveWhileItsInstanceIsFrozen(t *testing.T) {
	s, url := fresh(t)
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("b"), Database: "of i"})
	restore := newTask(t, s, store.NewTask{InstanceID: "i", Kind: store.Restore, PlanID: "p"})
	require.NoError(t, s.Backups.RecordScratch(t.Context(), held(restore), "b", "db_kept", "u", "i"))
	live := func() bool {
		r, err := s.Resources.Get(t.Context(), store.DatabaseResource, "b", "db_kept")
		require.NoError(t, err)
		return r.Live
	}
	require.NoError(t, s.Queue.Finish(t.Context(), held(restore), store.Failed, "", true, func(tx *store.Tx) {
		tx.SetFrozen("i", true)
	}))
	assert.True(t, live(), "the instance is frozen")
	write(t, s, func(tx *store.Tx) { tx.SetFrozen("i", false) })
	assert.False(t, live(), "another restore has succeeded")
	write(t, s, func(tx *store.Tx) {
		tx.SetFrozen("i", true)
		tx.Retain("i", store.Retained{ID: "r"}, 1, nil)
	})
	assert.True(t, live(), "the instance is retained")
	insertInstance(t, s, store.Instance{ID: "j", Location: store.SharedLocation("b"), Database: "of i"})
	exec(t, url, "UPDATE retained SET adopted_by = 'j'")
	write(t, s, func(tx *store.Tx) { tx.AdoptRetained("j", nil) })
	assert.True(t, live(), "another instance has got the data")
	write(t, s, func(tx *store.Tx) { tx.SetFrozen("j", false) })
	assert.False(t, live(), "it is restored")
}

// Each resource is read once, over any number of pages.
func TestResourcesAreReadInPages(t *testing.T) {
	s, url := fresh(t)
	const each = 2500
	exec(t, url, `INSERT INTO resource (kind, server, name, instance_id)
		SELECT kind, server, 'n' || n, 'i' FROM generate_series(1, 2500) n, (VALUES ('database', 'a'), ('account', 'a'),
			('database', 'b'), ('account', 'c'), ('dedicated server', '')) AS of (kind, server)`)
	names, err := s.Resources.Servers(t.Context())
	slices.Sort(names)
	assert.True(t, err == nil && slices.Equal(names, []string{"", "a", "b", "c"}), "servers %q, %v", names, err)
	for server, want := range map[string]int{"": each, "a": 2 * each, "b": each, "c": each, "d": 0} {
		seen, last := map[store.ResourceKey]bool{}, ""
		for _, r := range slices.Concat(listed(t, s.Resources.Each, server)...) {
			assert.False(t, r.Server != server || r.Kind == store.DatabaseResource && last == store.AccountResource,
				"server %q: %+v after a %s", server, r, last)
			seen[store.ResourceKey{Kind: r.Kind, Server: r.Server, Name: r.Name}], last = true, r.Kind
		}
		assert.Len(t, seen, want, "server %q", server)
	}
	stop := errors.New("enough")
	assert.ErrorIs(t, s.Resources.Each(t.Context(), "a", func([]store.Resource) error { return stop }), stop)
}

func TestOnlyDeadResourcesAreForgotten(t *testing.T) {
	s, ctx := parallel(t), t.Context()
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "live"})
	insertInstance(t, s, store.Instance{ID: "j", Location: store.SharedLocation("a"), Database: "dead"})
	write(t, s, func(tx *store.Tx) { tx.DeleteInstance("j") })
	live := store.Resource{Kind: store.DatabaseResource, Server: "a", Name: "live", InstanceID: "i", Live: true}
	dead := store.Resource{Kind: store.DatabaseResource, Server: "a", Name: "dead", InstanceID: "j"}
	key := func(server, name string) store.ResourceKey {
		return store.ResourceKey{Kind: store.DatabaseResource, Server: server, Name: name}
	}
	for name, gone := range map[string][]store.ResourceKey{
		"live": {key("a", "live")}, "on another server": {key("b", "dead")}, "none": nil,
	} {
		for range 2 {
			n, err := s.Resources.Forget(ctx, gone, 0)
			assert.True(t, err == nil && n == 0, "%s: forgot %d, %v", name, n, err)
		}
	}
	expectResources(t, s, dead, live)
	both := []store.ResourceKey{key("a", "dead"), key("a", "live")}
	forget := func(keep time.Duration, want int64) {
		n, err := s.Resources.Forget(ctx, both, keep)
		assert.True(t, err == nil && n == want, "forgot %d instead of %d, %v", n, want, err)
	}
	forget(0, 0)
	dead.SeenGone = true
	expectResources(t, s, dead, live)
	forget(time.Hour, 0)
	require.NoError(t, s.Resources.Remember(ctx, both))
	dead.SeenGone = false
	expectResources(t, s, dead, live)
	forget(0, 0)
	forget(0, 1)
	expectResources(t, s, live)
}

// What was gone when its instance was deleted stays retained, and is not forgotten as long as it is.
func TestRetainedDataThatWasGone(t *testing.T) {
	s, ctx := parallel(t), t.Context()
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "d"})
	insertInstance(t, s, store.Instance{ID: "j", Location: store.SharedLocation("a"), Database: "live"})
	write(t, s, func(tx *store.Tx) {
		tx.Retain("i", store.Retained{ID: "r"}, 1, nil)
		tx.SawGone("a", "d")
	})
	kept := store.Resource{Kind: store.DatabaseResource, Server: "a", Name: "d", InstanceID: "i", Live: true, Retained: "r",
		SeenGone: true}
	live := store.Resource{Kind: store.DatabaseResource, Server: "a", Name: "live", InstanceID: "j", Live: true}
	expectResources(t, s, kept, live)
	keys := []store.ResourceKey{{Kind: store.DatabaseResource, Server: "a", Name: "d"}}
	n, err := s.Resources.Forget(ctx, keys, 0)
	assert.True(t, err == nil && n == 0, "forgot %d, %v", n, err)
	require.NoError(t, s.Resources.Remember(ctx, keys))
	kept.SeenGone = false
	expectResources(t, s, kept, live)
}

func TestAbandoned(t *testing.T) {
	s := parallel(t)
	inTx(t, s, func(tx *store.Tx) error {
		var errs []error
		for _, id := range []string{"abandoned", "created", "ready", "delete failed", "delete again"} {
			errs = append(errs, tx.InsertInstance(store.Instance{ID: id, Location: store.SharedLocation("a"), Database: id}))
		}
		for _, id := range []string{"abandoned", "created", "ready", "ending", "unbind failed"} {
			errs = append(errs, tx.InsertBinding(store.Binding{InstanceID: "ready", ID: id, Account: id}))
		}
		// A failed deletion had cancelled its bind, which goes with the instance.
		errs = append(errs, tx.InsertBinding(store.Binding{InstanceID: "delete failed", ID: "b", Account: "b"}))
		tx.SetInstanceState("delete failed", store.DeleteFailed)
		tx.SetInstanceState("ready", store.Ready)
		tx.SetInstanceState("delete again", store.DeleteFailed)
		tx.SetBindingState("ready", "ready", store.Ready)
		tx.SetBindingState("ready", "ending", store.Ending)
		tx.SetBindingState("ready", "unbind failed", store.Ending)
		return errors.Join(errs...)
	})
	newTask(t, s, provisionOf("created"))
	newTask(t, s, store.NewTask{InstanceID: "ready", BindingID: "created", Kind: store.Bind, PlanID: "p"})
	newTask(t, s, store.NewTask{InstanceID: "ready", BindingID: "ending", Kind: store.Unbind, PlanID: "p"})
	newTask(t, s, store.NewTask{InstanceID: "delete again", Kind: store.Deprovision, PlanID: "p"})
	got, err := s.Resources.Abandoned(t.Context())
	require.NoError(t, err)
	for i := range got {
		got[i].Age = 0
	}
	want := []store.Abandoned{{InstanceID: "abandoned"}, {InstanceID: "delete failed"},
		{InstanceID: "ready", BindingID: "abandoned"}, {InstanceID: "ready", BindingID: "unbind failed"}}
	assert.ElementsMatch(t, want, got)
}

// An object counts if the server has begun again since it was asked, and has the same version.
func TestFatalObjects(t *testing.T) {
	s := parallel(t)
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db_i"})
	for object, ago := range map[string]time.Duration{"view v": time.Minute, "table t": time.Hour} {
		require.NoError(t, s.FatalObjects.Record(t.Context(), "i", "1.2", object, ago))
	}
	expect := func(version string, uptime time.Duration, want ...string) {
		got, err := s.FatalObjects.List(t.Context(), "i", version, uptime)
		assert.True(t, err == nil && slices.Equal(got, want), "version %s, up for %s: %q, %v", version, uptime, got, err)
	}
	expect("1.2", time.Second, "table t", "view v")
	expect("1.2", 10*time.Minute, "table t") // the connection to the server that was asked for v broke by itself
	expect("1.3", time.Second)
	require.NoError(t, s.FatalObjects.Forget(t.Context(), "i"))
	expect("1.2", time.Second)
}
