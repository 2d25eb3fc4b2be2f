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

	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// newTask records a task for an instance that need not exist.
func newTask(t *testing.T, s *store.Store, n store.NewTask) store.Task {
	t.Helper()
	var task *store.Task
	if err := s.InTx(t.Context(), func(tx *store.Tx) error {
		task = tx.InsertTask(n)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	const newer = 9999
	if _, err := conn.Exec(ctx, "UPDATE schema_version SET version = $1", newer); err != nil {
		t.Fatal(err)
	}
	if version, err := store.Migrate(ctx, url); err != nil || version != newer {
		t.Errorf("version %d, %v", version, err)
	}
}

func TestSessionLockKeyIsSharedAndLong(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	a, err := servers.OpenStore(t, url).Keys.SessionLockKey(t.Context())
	if err != nil || len(a) < 32 {
		t.Fatalf("%d bytes, %v", len(a), err)
	}
	b, err := servers.OpenStore(t, url).Keys.SessionLockKey(t.Context())
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("another broker reads another key, %v", err)
	}
	if other, err := servers.Store(t).Keys.SessionLockKey(t.Context()); err != nil || bytes.Equal(a, other) {
		t.Errorf("another database has the same key, %v", err)
	}
}

func TestPasswordsOpenOnlyWithTheirKeyAndInTheirRow(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s, other, ctx := servers.OpenStore(t, url), servers.OpenStore(t, url), t.Context()
	if err := s.InTx(ctx, func(tx *store.Tx) error {
		err := tx.InsertInstance(store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
		return errors.Join(err, tx.InsertBinding(store.Binding{InstanceID: "i", ID: "b", Role: "admin",
			Account: "u", Password: "secret"}))
	}); err != nil {
		t.Fatal(err)
	}
	b, err := s.Bindings.Get(ctx, "i", "b")
	if err != nil || b.Password != "secret" {
		t.Errorf("own key: %+v, %v", b, err)
	}
	if _, err := other.Bindings.Get(ctx, "i", "b"); err == nil {
		t.Error("a store with another keyset read the password")
	}
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
	if len(made) != 2 {
		t.Fatalf("of two places, %q were taken", made)
	}
	if err := take("3"); !errors.Is(err, store.ErrServerFull) {
		t.Fatalf("third of two: %v", err)
	}
	expectUnrecorded(t, s, "3")
	if err := s.InTx(ctx, func(tx *store.Tx) error { tx.DeleteInstance(made[0]); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := take("3"); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
	if loads, err := s.Servers.States(ctx, []string{"a", "b"}); err != nil || loads["a"].Instances != 2 {
		t.Errorf("loads %v, %v", loads, err)
	}
}

// expectUnrecorded checks that nothing is recorded of an instance whose provision was refused.
func expectUnrecorded(t *testing.T, s *store.Store, id string) {
	t.Helper()
	if _, err := s.Instances.Get(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the instance that was refused: %v", err)
	}
	if _, err := s.Tasks.Latest(t.Context(), id, "", ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its task: %v", err)
	}
	if _, err := s.Resources.Get(t.Context(), store.DatabaseResource, "a", "db_"+id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its database: %v", err)
	}
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
		if seen[id] {
			t.Errorf("task %d was claimed twice", id)
		}
		seen[id] = true
	}
	if len(seen) != tasks {
		t.Errorf("%d of %d tasks were claimed", len(seen), tasks)
	}
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
	if err == nil {
		t.Error("a second task of one binding was recorded while the first was in progress")
	}
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
	if _, err := lost.Queue.Claim(ctx, "unlucky", -time.Second, store.Passed{}); err == nil {
		t.Fatal("the answer was not lost")
	}
	testdrive.Receive(t, cut, "the answer to the claim is lost")
	expectRows(t, url, "SELECT lease_owner FROM task", "unlucky")
	if got, err := s.Queue.Claim(ctx, "next", time.Minute, store.Passed{}); err != nil || got.Attempt != 1 {
		t.Errorf("attempt %d, %v, want 1: that of the worker that died", got.Attempt, err)
	}
	expectRows(t, url, "SELECT attempt::text FROM task", "1")
}

func TestEpochKeepsOutFormerHoldersOfALease(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	newTask(t, s, provisionOf("i"))
	dead, err := s.Queue.Claim(ctx, "dead", -time.Second, store.Passed{}) // run out as soon as it is taken
	if err != nil {
		t.Fatal(err)
	}
	alive, err := s.Queue.Claim(ctx, "alive", time.Minute, store.Passed{})
	if err != nil {
		t.Fatal(err)
	}
	if alive.ID != dead.ID || alive.Attempt != 1 {
		t.Errorf("took over task %d as attempt %d", alive.ID, alive.Attempt)
	}
	writes := map[string]error{
		"progress": s.Queue.Progress(ctx, held(dead), "step", "…", false),
		"postpone": s.Queue.Postpone(ctx, held(dead), 0, 1, "…"),
		"give up":  s.Queue.GiveUp(ctx, held(dead), "…", "…"),
		"finish":   s.Queue.Finish(ctx, held(dead), store.Succeeded, "", true, nothing),
	}
	for name, err := range writes {
		if !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("%s by the worker that lost the lease: %v", name, err)
		}
	}
	if renewed, err := s.Queue.Extend(ctx, "dead", []store.Lease{held(dead)}, time.Minute); err != nil || len(renewed) != 0 {
		t.Errorf("the lost lease was renewed: %v, %v", renewed, err)
	}
	if renewed, err := s.Queue.Extend(ctx, "alive", []store.Lease{held(alive)}, time.Minute); err != nil || len(renewed) != 1 {
		t.Errorf("the live lease was not renewed: %v, %v", renewed, err)
	}
	if err := s.Queue.Finish(ctx, held(alive), store.Succeeded, "", true, nothing); err != nil {
		t.Error(err)
	}
}

func TestCancelledTaskKeepsTheNextOneWaiting(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	n := provisionOf("i")
	n.Owner, n.LeaseTTL = "first", time.Minute
	first := newTask(t, s, n)
	if !first.Leased {
		t.Fatal("the first task got no lease")
	}
	var second *store.Task
	if err := s.InTx(ctx, func(tx *store.Tx) error {
		tx.CancelTask(first.ID, "cancelled")
		second = tx.InsertTask(store.NewTask{InstanceID: "i", Kind: store.Deprovision, PlanID: "p",
			Owner: "second", LeaseTTL: time.Minute})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if second.Leased {
		t.Error("the second task got a lease beside the first one's")
	}
	if err := s.Queue.Finish(ctx, held(first), store.Succeeded, "", true, nothing); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("the cancelled task's worker finished it: %v", err)
	}
	if _, err := s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("claimed while the cancelled one's lease was live: %v", err)
	}
	if err := s.Queue.ReleaseCancelled(ctx, held(first), "first"); err != nil {
		t.Fatal(err)
	}
	if claimed, err := s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{}); err != nil || claimed.ID != second.ID {
		t.Errorf("claimed %d, %v after the release", claimed.ID, err)
	}
}

func TestAbortedTaskWaitsForItsWorker(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	n := provisionOf("i")
	n.Owner, n.LeaseTTL = "first", time.Minute
	first := newTask(t, s, n)
	if _, err := s.Tasks.Abort(ctx, first.ID, "aborted", "aborted"); err != nil {
		t.Fatal(err)
	}
	for _, other := range []struct {
		lease store.Lease
		owner string
	}{{held(first), "second"}, {store.Lease{ID: first.ID, Epoch: first.Epoch - 1}, "first"}} {
		if err := s.Queue.ReleaseCancelled(ctx, other.lease, other.owner); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("claimed while the aborted worker's lease was live: %v", err)
		}
	}
	if err := s.Queue.ReleaseCancelled(ctx, held(first), "first"); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{})
	if err != nil || claimed.ID != first.ID || claimed.Phase != store.Cleanup || claimed.Attempt != 0 {
		t.Fatalf("claimed %+v, %v after the release", claimed, err)
	}
	if err := s.Queue.ReleaseCancelled(ctx, held(first), "first"); err != nil {
		t.Fatal(err)
	}
	if err := s.Queue.Finish(ctx, held(claimed), store.Failed, "", true, nothing); err != nil {
		t.Errorf("the former worker took the lease from the next one: %v", err)
	}
}

func TestBindingTasksRunSideBySideButNotBesideTheInstances(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	lease := func(n store.NewTask) store.NewTask {
		n.InstanceID, n.PlanID, n.Owner, n.LeaseTTL = "i", "p", "me", time.Minute
		return n
	}
	if !newTask(t, s, lease(store.NewTask{BindingID: "a", Kind: store.Bind})).Leased {
		t.Error("first bind got no lease")
	}
	if !newTask(t, s, lease(store.NewTask{BindingID: "b", Kind: store.Bind})).Leased {
		t.Error("bind of another binding got no lease")
	}
	if newTask(t, s, lease(store.NewTask{Kind: store.Update})).Leased {
		t.Error("update got a lease while binds had theirs")
	}
}

func TestOldTasksAreForgotten(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	newTask(t, s, provisionOf("unfinished"))
	for _, id := range []string{"done", "newest"} {
		done := newTask(t, s, provisionOf(id))
		if err := s.InTx(ctx, func(tx *store.Tx) error { tx.CancelTask(done.ID, ""); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Tasks.DeleteFinished(ctx, time.Hour); err != nil || n != 0 {
		t.Errorf("deleted %d young tasks, %v", n, err)
	}
	if n, err := s.Tasks.DeleteFinished(ctx, 0); err != nil || n != 1 {
		t.Errorf("deleted %d old tasks, %v", n, err)
	}
}

// All old tasks are deleted and no others, also in several batches and by several brokers at once.
func TestManyOldTasksAreForgotten(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	const old, young = 3500, 10
	if _, err := conn.Exec(ctx, `INSERT INTO task (instance_id, kind, plan_id, state, created_at, finished_at)
		SELECT 'i' || n, 'bind', 'p', 'succeeded', now() - '3 hours'::interval,
			now() - CASE WHEN n > $1::int THEN '1 minute' ELSE '2 hours' END::interval
		FROM generate_series(1, $2) n`, old, old+young); err != nil {
		t.Fatal(err)
	}
	var deleted [2]int64
	var both sync.WaitGroup
	for i := range deleted {
		both.Go(func() {
			var err error
			if deleted[i], err = s.Tasks.DeleteFinished(ctx, time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	var left int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM task").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if deleted[0]+deleted[1] != old || left != young {
		t.Errorf("deleted %v instead of %d in all, left %d instead of %d", deleted, old, left, young)
	}
}

func TestTaskStatus(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	id := newTask(t, s, store.NewTask{InstanceID: "i", BindingID: "b", Kind: store.Bind, PlanID: "p"}).ID
	want := store.TaskStatus{Kind: store.Bind, State: store.InProgress}
	if got, err := s.Tasks.Status(t.Context(), id, "i", "b"); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
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
	if err != nil || load != 1 || first.ID == 0 {
		t.Fatalf("the first: %+v, load %d, %v", first, load, err)
	}
	if _, _, err := record("db_2"); !errors.Is(err, store.ErrExists) {
		t.Fatalf("the second: %v", err)
	}
	if loads, err := s.Servers.States(ctx, []string{"a"}); err != nil || loads["a"].Instances != 1 {
		t.Errorf("loads %v, %v", loads, err)
	}
	if latest, err := s.Tasks.Latest(ctx, "i", "", ""); err != nil || latest.ID != first.ID {
		t.Errorf("latest task %+v, %v", latest, err)
	}
	expectResources(t, s, store.Resource{Kind: store.DatabaseResource, Server: "a", Name: "db_1", InstanceID: "i",
		Live: true})
}
