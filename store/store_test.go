package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// newTask records a task for an instance that need not exist.
func newTask(t *testing.T, s *store.Store, n store.NewTask) store.Task {
	t.Helper()
	var task *store.Task
	require.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error {
		task = tx.InsertTask(n)
		return nil
	}))
	return *task
}

func provisionOf(instanceID string) store.NewTask {
	return store.NewTask{InstanceID: instanceID, Kind: store.Provision, PlanID: "plan"}
}

func held(t store.Task) store.Lease { return store.Lease{ID: t.ID, Epoch: t.Epoch} }

func nothing(*store.Tx) {}

func TestMigrateLeavesANewerSchemaAlone(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer conn.Close(ctx)
	const newer = 9999
	_, err = conn.Exec(ctx, "UPDATE schema_version SET version = $1", newer)
	require.NoError(t, err)
	version, err := store.Migrate(ctx, url)
	assert.True(t, err == nil && version == newer, "version %d, %v", version, err)
}

func TestSessionLockKeyIsSharedAndLong(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	a, err := servers.OpenStore(t, url).Keys.SessionLockKey(t.Context())
	require.True(t, err == nil && len(a) >= 32, "%d bytes, %v", len(a), err)
	b, err := servers.OpenStore(t, url).Keys.SessionLockKey(t.Context())
	assert.True(t, err == nil && bytes.Equal(a, b), "another broker reads another key, %v", err)
	other, err := servers.Store(t).Keys.SessionLockKey(t.Context())
	assert.True(t, err == nil && !bytes.Equal(a, other), "another database has the same key, %v", err)
}

func TestPasswordsOpenOnlyWithTheirKeyAndInTheirRow(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s, other, ctx := servers.OpenStore(t, url), servers.OpenStore(t, url), t.Context()
	require.NoError(t, s.InTx(ctx, func(tx *store.Tx) error {
		err := tx.InsertInstance(store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
		return errors.Join(err, tx.InsertBinding(store.Binding{InstanceID: "i", ID: "b", Role: "admin",
			Account: "u", Password: "secret"}))
	}))
	b, err := s.Bindings.Get(ctx, "i", "b")
	assert.True(t, err == nil && b.Password == "secret", "own key: %+v, %v", b, err)
	_, err = other.Bindings.Get(ctx, "i", "b")
	assert.Error(t, err, "a store with another keyset read the password")
}

func TestServerPlacesAreLimited(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	take := func(id string) error {
		i := store.Instance{ID: id, Location: store.SharedLocation("a"), Database: "db_" + id}
		_, _, err := s.Instances.RecordProvision(ctx, store.Asked{At: time.Now()}, i, provisionOf(id), store.Room{OnServer: 2})
		return err
	}
	var mu sync.Mutex
	var made []string
	var all sync.WaitGroup
	for n := range 8 { // at once
		all.Go(func() {
			err := take(fmt.Sprint(10 + n))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made = append(made, fmt.Sprint(10+n))
			} else if !errors.Is(err, store.ErrServerFull) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, made, 2, "of two places, %q were taken", made)
	require.ErrorIs(t, take("3"), store.ErrServerFull, "third of two")
	expectUnrecorded(t, s, "3")
	require.NoError(t, s.InTx(ctx, func(tx *store.Tx) error { tx.DeleteInstance(made[0]); return nil }))
	assert.NoError(t, take("3"), "after one was deleted")
	loads, err := s.Servers.States(ctx, []string{"a", "b"})
	assert.True(t, err == nil && loads["a"].Instances == 2, "loads %v, %v", loads, err)
}

// expectUnrecorded checks that nothing is recorded of an instance whose provision was refused.
func expectUnrecorded(t *testing.T, s *store.Store, id string) {
	t.Helper()
	_, err := s.Instances.Get(t.Context(), id)
	assert.ErrorIs(t, err, store.ErrNotFound, "the instance that was refused")
	_, err = s.Tasks.Latest(t.Context(), id, "", "")
	assert.ErrorIs(t, err, store.ErrNotFound, "its task")
	_, err = s.Resources.Get(t.Context(), store.DatabaseResource, "a", "db_"+id)
	assert.ErrorIs(t, err, store.ErrNotFound, "its database")
}

func TestClaimGivesEachTaskToOneOwner(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	const tasks = 20
	for range tasks {
		newTask(t, s, provisionOf(uuid.NewString()))
	}
	claimed := make(chan int64)
	for range 4 {
		go func() {
			for {
				task, err := s.Queue.Claim(context.Background(), uuid.NewString(), time.Minute, store.Passed{})
				if err != nil {
					claimed <- 0
					return
				}
				claimed <- task.ID
			}
		}()
	}
	seen := map[int64]bool{}
	for workers := 4; workers > 0; {
		id := <-claimed
		if id == 0 {
			workers--
			continue
		}
		assert.False(t, seen[id], "task %d was claimed twice", id)
		seen[id] = true
	}
	assert.Len(t, seen, tasks, "%d of %d tasks were claimed", len(seen), tasks)
}

func TestOneActiveTaskForEachInstanceAndBinding(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	bind := store.NewTask{InstanceID: "i", BindingID: "b", Kind: store.Bind, PlanID: "p"}
	newTask(t, s, bind)
	newTask(t, s, store.NewTask{InstanceID: "i", BindingID: "c", Kind: store.Bind, PlanID: "p"})
	err := s.InTx(ctx, func(tx *store.Tx) error {
		tx.InsertTask(bind)
		return nil
	})
	assert.Error(t, err, "a second task of one binding was recorded while the first was in progress")
}

// A claim whose response is lost runs no step, and does not count as an attempt.
func TestLostClaimIsNoAttempt(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	network, through := testdrive.ProxyURL(t, url)
	lost := servers.OpenStore(t, through)
	newTask(t, s, store.NewTask{InstanceID: "i", Kind: store.Provision, PlanID: "p", Owner: "dead", LeaseTTL: -time.Second})
	cut := network.CutAnswer(testdrive.Parameter("unlucky"), 0)
	_, err := lost.Queue.Claim(ctx, "unlucky", -time.Second, store.Passed{})
	require.Error(t, err, "the answer was not lost")
	testdrive.Receive(t, cut, "the answer to the claim is lost")
	expectRows(t, url, "SELECT lease_owner FROM task", "unlucky")
	got, err := s.Queue.Claim(ctx, "next", time.Minute, store.Passed{})
	assert.True(t, err == nil && got.Attempt == 1,
		"attempt %d, %v, want 1: that of the worker that died", got.Attempt, err)
	expectRows(t, url, "SELECT attempt::text FROM task", "1")
}

func TestEpochKeepsOutFormerHoldersOfALease(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	newTask(t, s, provisionOf("i"))
	dead, err := s.Queue.Claim(ctx, "dead", -time.Second, store.Passed{}) // run out as soon as it is taken
	require.NoError(t, err)
	alive, err := s.Queue.Claim(ctx, "alive", time.Minute, store.Passed{})
	require.NoError(t, err)
	assert.True(t, alive.ID == dead.ID && alive.Attempt == 1, "took over task %d as attempt %d", alive.ID, alive.Attempt)
	writes := map[string]error{
		"progress": s.Queue.Progress(ctx, held(dead), "step", "…", false),
		"postpone": s.Queue.Postpone(ctx, held(dead), 0, 1, "…"),
		"give up":  s.Queue.GiveUp(ctx, held(dead), "…", "…"),
		"finish":   s.Queue.Finish(ctx, held(dead), store.Succeeded, "", true, nothing),
	}
	for name, err := range writes {
		assert.ErrorIs(t, err, store.ErrLeaseLost, "%s by the worker that lost the lease", name)
	}
	renewed, err := s.Queue.Extend(ctx, "dead", []store.Lease{held(dead)}, time.Minute)
	assert.True(t, err == nil && len(renewed) == 0, "the lost lease was renewed: %v, %v", renewed, err)
	renewed, err = s.Queue.Extend(ctx, "alive", []store.Lease{held(alive)}, time.Minute)
	assert.True(t, err == nil && len(renewed) == 1, "the live lease was not renewed: %v, %v", renewed, err)
	assert.NoError(t, s.Queue.Finish(ctx, held(alive), store.Succeeded, "", true, nothing))
}

func TestCancelledTaskKeepsTheNextOneWaiting(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	n := provisionOf("i")
	n.Owner, n.LeaseTTL = "first", time.Minute
	first := newTask(t, s, n)
	require.True(t, first.Leased, "the first task got no lease")
	var second *store.Task
	require.NoError(t, s.InTx(ctx, func(tx *store.Tx) error {
		tx.CancelTask(first.ID, "cancelled")
		second = tx.InsertTask(store.NewTask{InstanceID: "i", Kind: store.Deprovision, PlanID: "p",
			Owner: "second", LeaseTTL: time.Minute})
		return nil
	}))
	assert.False(t, second.Leased, "the second task got a lease beside the first one's")
	assert.ErrorIs(t, s.Queue.Finish(ctx, held(first), store.Succeeded, "", true, nothing), store.ErrLeaseLost,
		"the cancelled task's worker finished it")
	_, err := s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{})
	assert.ErrorIs(t, err, store.ErrNotFound, "claimed while the cancelled one's lease was live")
	require.NoError(t, s.Queue.ReleaseCancelled(ctx, held(first), "first"))
	claimed, err := s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{})
	assert.True(t, err == nil && claimed.ID == second.ID, "claimed %d, %v after the release", claimed.ID, err)
}

func TestAbortedTaskWaitsForItsWorker(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	n := provisionOf("i")
	n.Owner, n.LeaseTTL = "first", time.Minute
	first := newTask(t, s, n)
	_, err := s.Tasks.Abort(ctx, first.ID, "aborted", "aborted")
	require.NoError(t, err)
	for _, other := range []struct {
		lease store.Lease
		owner string
	}{{held(first), "second"}, {store.Lease{ID: first.ID, Epoch: first.Epoch - 1}, "first"}} {
		require.NoError(t, s.Queue.ReleaseCancelled(ctx, other.lease, other.owner))
		_, err = s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{})
		assert.ErrorIs(t, err, store.ErrNotFound, "claimed while the aborted worker's lease was live")
	}
	require.NoError(t, s.Queue.ReleaseCancelled(ctx, held(first), "first"))
	claimed, err := s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{})
	require.True(t, err == nil && claimed.ID == first.ID && claimed.Phase == store.Cleanup && claimed.Attempt == 0,
		"claimed %+v, %v after the release", claimed, err)
	require.NoError(t, s.Queue.ReleaseCancelled(ctx, held(first), "first"))
	assert.NoError(t, s.Queue.Finish(ctx, held(claimed), store.Failed, "", true, nothing),
		"the former worker took the lease from the next one")
}

func TestBindingTasksRunSideBySideButNotBesideTheInstances(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	lease := func(n store.NewTask) store.NewTask {
		n.InstanceID, n.PlanID, n.Owner, n.LeaseTTL = "i", "p", "me", time.Minute
		return n
	}
	assert.True(t, newTask(t, s, lease(store.NewTask{BindingID: "a", Kind: store.Bind})).Leased, "first bind got no lease")
	assert.True(t, newTask(t, s, lease(store.NewTask{BindingID: "b", Kind: store.Bind})).Leased,
		"bind of another binding got no lease")
	assert.False(t, newTask(t, s, lease(store.NewTask{Kind: store.Update})).Leased,
		"update got a lease while binds had theirs")
}

func TestOldTasksAreForgotten(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	newTask(t, s, provisionOf("unfinished"))
	for _, id := range []string{"done", "newest"} {
		done := newTask(t, s, provisionOf(id))
		require.NoError(t, s.InTx(ctx, func(tx *store.Tx) error { tx.CancelTask(done.ID, ""); return nil }))
	}
	n, err := s.Tasks.DeleteFinished(ctx, time.Hour)
	assert.True(t, err == nil && n == 0, "deleted %d young tasks, %v", n, err)
	n, err = s.Tasks.DeleteFinished(ctx, 0)
	assert.True(t, err == nil && n == 1, "deleted %d old tasks, %v", n, err)
}

// All old tasks are deleted and no others, also in several batches and by several brokers at once.
func TestManyOldTasksAreForgotten(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer conn.Close(ctx)
	const old, young = 3500, 10
	_, err = conn.Exec(ctx, `INSERT INTO task (instance_id, kind, plan_id, state, created_at, finished_at)
		SELECT 'i' || n, 'bind', 'p', 'succeeded', now() - '3 hours'::interval,
			now() - CASE WHEN n > $1::int THEN '1 minute' ELSE '2 hours' END::interval
		FROM generate_series(1, $2) n`, old, old+young)
	require.NoError(t, err)
	var deleted [2]int64
	var both sync.WaitGroup
	for i := range deleted {
		both.Go(func() {
			var err error
			deleted[i], err = s.Tasks.DeleteFinished(ctx, time.Hour)
			assert.NoError(t, err)
		})
	}
	both.Wait()
	var left int
	require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM task").Scan(&left))
	assert.True(t, deleted[0]+deleted[1] == old && left == young,
		"deleted %v instead of %d in all, left %d instead of %d", deleted, old, left, young)
}

func TestTaskStatus(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	id := newTask(t, s, store.NewTask{InstanceID: "i", BindingID: "b", Kind: store.Bind, PlanID: "p"}).ID
	want := store.TaskStatus{Kind: store.Bind, State: store.InProgress}
	got, err := s.Tasks.Status(t.Context(), id, "i", "b")
	assert.True(t, err == nil && got == want, "%+v, %v; want %+v", got, err, want)
	for _, other := range []struct {
		id                int64
		instance, binding string
	}{{id + 1000, "i", "b"}, {id, "other", "b"}, {id, "i", ""}} {
		if got, err := s.Tasks.Status(t.Context(), other.id, other.instance, other.binding); err != store.ErrNotFound {
			t.Errorf("task %d of %s %q is %+v, %v", other.id, other.instance, other.binding, got, err)
		}
	}
}

// A second provision of an instance changes neither its location nor its task.
func TestRecordProvisionOnlyOnce(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	record := func(database string) (store.Task, int, error) {
		i := store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: database}
		return s.Instances.RecordProvision(ctx, store.Asked{At: time.Now()}, i, provisionOf("i"), store.Room{OnServer: 10})
	}
	first, load, err := record("db_1")
	require.True(t, err == nil && load == 1 && first.ID != 0, "the first: %+v, load %d, %v", first, load, err)
	_, _, err = record("db_2")
	require.ErrorIs(t, err, store.ErrExists, "the second")
	loads, err := s.Servers.States(ctx, []string{"a"})
	assert.True(t, err == nil && loads["a"].Instances == 1, "loads %v, %v", loads, err)
	latest, err := s.Tasks.Latest(ctx, "i", "", "")
	assert.True(t, err == nil && latest.ID == first.ID, "latest task %+v, %v", latest, err)
	expectResources(t, s, store.Resource{Kind: store.DatabaseResource, Server: "a", Name: "db_1", InstanceID: "i",
		Live: true})
}
