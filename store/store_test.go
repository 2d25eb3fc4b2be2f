package store_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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

func inTx(t *testing.T, s *store.Store, fn func(tx *store.Tx) error) {
	require.NoError(t, s.InTx(t.Context(), fn))
}

// write is inTx for changes that fail at the commit at the earliest.
func write(t *testing.T, s *store.Store, fn func(tx *store.Tx)) {
	inTx(t, s, func(tx *store.Tx) error { fn(tx); return nil })
}

// newTask records a task for an instance that need not exist.
func newTask(t *testing.T, s *store.Store, n store.NewTask) store.Task {
	var task *store.Task
	write(t, s, func(tx *store.Tx) { task = tx.InsertTask(n) })
	return *task
}

func insertInstance(t *testing.T, s *store.Store, i store.Instance) {
	inTx(t, s, func(tx *store.Tx) error { return tx.InsertInstance(i) })
}

func insertBinding(t *testing.T, s *store.Store, b store.Binding) {
	inTx(t, s, func(tx *store.Tx) error { return tx.InsertBinding(b) })
}

// connect connects to a database, past the store, until the test ends.
func connect(t *testing.T, url string) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, url string, statements ...string) {
	conn := connect(t, url)
	for _, statement := range statements {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
}

// texts are the rows of a query that yields one text each.
func texts(t *testing.T, url, query string) []string {
	rows, err := connect(t, url).Query(t.Context(), query)
	require.NoError(t, err)
	all, err := pgx.AppendRows([]string(nil), rows, pgx.RowTo[string])
	require.NoError(t, err, query)
	return all
}

// parallel runs the test in parallel with others, on a store of its own.
func parallel(t *testing.T) *store.Store {
	t.Parallel()
	return servers.Store(t)
}

// fresh is parallel for a test that looks into the store's database, which has that URL.
func fresh(t *testing.T) (s *store.Store, url string) {
	t.Parallel()
	url = servers.Postgres(t)
	return servers.OpenStore(t, url), url
}

// openMigrated opens a store on a PostgreSQL of the test's own.
func openMigrated(t *testing.T, url string) *store.Store {
	_, err := store.Migrate(t.Context(), url)
	require.NoError(t, err)
	return servers.OpenStore(t, url)
}

// filled is parallel with a store whose database statements have filled.
func filled(t *testing.T, statements ...string) *store.Store {
	s, url := fresh(t)
	exec(t, url, statements...)
	return s
}

func provisionOf(instanceID string) store.NewTask {
	return store.NewTask{InstanceID: instanceID, Kind: store.Provision, PlanID: "plan"}
}

// leased is a provision that its owner works on, for an hour.
func leased(instanceID, owner string) store.NewTask {
	n := provisionOf(instanceID)
	n.Owner, n.LeaseTTL = owner, time.Hour
	return n
}

func held(t store.Task) store.Lease { return store.Lease{ID: t.ID, Epoch: t.Epoch} }

// recordProvision records an instance and its task, on a server that takes twenty.
func recordProvision(t *testing.T, s *store.Store, i store.Instance, n store.NewTask) (store.Task, error) {
	task, _, err := s.Instances.RecordProvision(t.Context(), store.Asked{At: time.Now()}, i, n, store.Room{OnServer: 20})
	return task, err
}

// claim takes the task that is due next.
func claim(t *testing.T, s *store.Store, owner string, lease time.Duration) store.Task {
	task, err := s.Queue.Claim(t.Context(), owner, lease, store.Passed{})
	require.NoError(t, err)
	return task
}

// expectNoTask checks that there is no task to claim.
func expectNoTask(t *testing.T, s *store.Store, when string) {
	_, err := s.Queue.Claim(t.Context(), "nobody", time.Minute, store.Passed{})
	assert.ErrorIs(t, err, store.ErrNotFound, "claimed %s", when)
}

// listed returns what a method like Instances.Each reads.
func listed[Query, Row any](t *testing.T, each func(context.Context, Query, func(Row) error) error, q Query) (all []Row) {
	require.NoError(t, each(t.Context(), q, func(r Row) error { all = append(all, r); return nil }))
	return all
}

func nothing(*store.Tx) {}

func TestMigrateLeavesANewerSchemaAlone(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	exec(t, url, "UPDATE schema_version SET version = 9999")
	version, err := store.Migrate(t.Context(), url)
	require.NoError(t, err)
	assert.EqualValues(t, 9999, version)
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

func TestServerPlacesAreLimited(t *testing.T) {
	s, ctx := parallel(t), t.Context()
	take := func(id string) error {
		i := store.Instance{ID: id, Location: store.SharedLocation("a"), Database: "db_" + id}
		_, _, err := s.Instances.RecordProvision(ctx, store.Asked{At: time.Now()}, i, provisionOf(id), store.Room{OnServer: 2})
		return err
	}
	const racers = 8
	made := make(chan string, racers)
	var all sync.WaitGroup
	for n := range racers { // at once
		all.Go(func() {
			if err := take(fmt.Sprint(10 + n)); err == nil {
				made <- fmt.Sprint(10 + n)
			} else {
				assert.ErrorIs(t, err, store.ErrServerFull)
			}
		})
	}
	all.Wait()
	require.Len(t, made, 2, "instances in two places")
	require.ErrorIs(t, take("3"), store.ErrServerFull, "third of two")
	expectUnrecorded(t, s, "3")
	write(t, s, func(tx *store.Tx) { tx.DeleteInstance(<-made) })
	assert.NoError(t, take("3"), "after one was deleted")
	loads, err := s.Servers.States(ctx, []string{"a", "b"})
	assert.True(t, err == nil && loads["a"].Instances == 2, "loads %v, %v", loads, err)
}

// expectUnrecorded checks that nothing is recorded of an instance whose provision was refused.
func expectUnrecorded(t *testing.T, s *store.Store, id string) {
	_, err := s.Instances.Get(t.Context(), id)
	assert.ErrorIs(t, err, store.ErrNotFound, "the instance that was refused")
	_, err = s.Tasks.Latest(t.Context(), id, "", "")
	assert.ErrorIs(t, err, store.ErrNotFound, "its task")
	_, err = s.Resources.Get(t.Context(), store.DatabaseResource, "a", "db_"+id)
	assert.ErrorIs(t, err, store.ErrNotFound, "its database")
}

func TestClaimGivesEachTaskToOneOwner(t *testing.T) {
	s := parallel(t)
	const tasks = 20
	for range tasks {
		newTask(t, s, provisionOf(uuid.NewString()))
	}
	var seen sync.Map
	var claimed atomic.Int64
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				task, err := s.Queue.Claim(t.Context(), uuid.NewString(), time.Minute, store.Passed{})
				if err != nil {
					assert.ErrorIs(t, err, store.ErrNotFound)
					return
				}
				_, twice := seen.Swap(task.ID, true)
				assert.False(t, twice, "task %d was claimed twice", task.ID)
				claimed.Add(1)
			}
		})
	}
	workers.Wait()
	assert.EqualValues(t, tasks, claimed.Load())
}

func TestOneActiveTaskForEachInstanceAndBinding(t *testing.T) {
	s, ctx := parallel(t), t.Context()
	bind := store.NewTask{InstanceID: "i", BindingID: "b", Kind: store.Bind, PlanID: "p"}
	newTask(t, s, bind)
	newTask(t, s, store.NewTask{InstanceID: "i", BindingID: "c", Kind: store.Bind, PlanID: "p"})
	assert.Error(t, s.InTx(ctx, func(tx *store.Tx) error { tx.InsertTask(bind); return nil }),
		"a second task of one binding was recorded while the first was in progress")
}

// A claim whose response is lost runs no step, and does not count as an attempt.
func TestLostClaimIsNoAttempt(t *testing.T) {
	s, url := fresh(t)
	network, through := testdrive.ProxyURL(t, url)
	lost := servers.OpenStore(t, through)
	newTask(t, s, store.NewTask{InstanceID: "i", Kind: store.Provision, PlanID: "p", Owner: "dead", LeaseTTL: -time.Second})
	cut := network.CutAnswer(testdrive.Parameter("unlucky"))
	_, err := lost.Queue.Claim(t.Context(), "unlucky", -time.Second, store.Passed{})
	require.Error(t, err, "the answer was not lost")
	testdrive.Receive(t, cut, "the answer to the claim is lost")
	expectRows(t, url, "SELECT lease_owner FROM task", "unlucky")
	assert.Equal(t, 1, claim(t, s, "next", time.Minute).Attempt, "that of the worker that died")
	expectRows(t, url, "SELECT attempt::text FROM task", "1")
}

func TestEpochKeepsOutFormerHoldersOfALease(t *testing.T) {
	s, ctx := parallel(t), t.Context()
	newTask(t, s, provisionOf("i"))
	dead := claim(t, s, "dead", -time.Second) // run out as soon as it is taken
	alive := claim(t, s, "alive", time.Minute)
	assert.True(t, alive.ID == dead.ID && alive.Attempt == 1, "took over task %d as attempt %d", alive.ID, alive.Attempt)
	for name, err := range map[string]error{
		"progress": s.Queue.Progress(ctx, held(dead), "step", "…", false),
		"postpone": s.Queue.Postpone(ctx, held(dead), 0, 1, "…"),
		"give up":  s.Queue.GiveUp(ctx, held(dead), "…", "…"),
	} { // and finish: TestLostLeaseRecordsNoOutcome
		assert.ErrorIs(t, err, store.ErrLeaseLost, "%s by the worker that lost the lease", name)
	}
	renewed, err := s.Queue.Extend(ctx, "dead", []store.Lease{held(dead)}, time.Minute)
	assert.True(t, err == nil && len(renewed) == 0, "the lost lease was renewed: %v, %v", renewed, err)
	renewed, err = s.Queue.Extend(ctx, "alive", []store.Lease{held(alive)}, time.Minute)
	assert.True(t, err == nil && len(renewed) == 1, "the live lease was not renewed: %v, %v", renewed, err)
	assert.NoError(t, s.Queue.Finish(ctx, held(alive), store.Succeeded, "", true, nothing))
}

func TestCancelledTaskKeepsTheNextOneWaiting(t *testing.T) {
	s, ctx := parallel(t), t.Context()
	first := newTask(t, s, leased("i", "first"))
	require.True(t, first.Leased, "the first task got no lease")
	var second *store.Task
	write(t, s, func(tx *store.Tx) {
		tx.CancelTask(first.ID, "cancelled")
		second = tx.InsertTask(store.NewTask{InstanceID: "i", Kind: store.Deprovision, PlanID: "p",
			Owner: "second", LeaseTTL: time.Minute})
	})
	assert.False(t, second.Leased, "the second task got a lease beside the first one's")
	assert.ErrorIs(t, s.Queue.Finish(ctx, held(first), store.Succeeded, "", true, nothing), store.ErrLeaseLost,
		"the cancelled task's worker finished it")
	expectNoTask(t, s, "while the cancelled one's lease was live")
	require.NoError(t, s.Queue.ReleaseCancelled(ctx, held(first), "first"))
	assert.Equal(t, second.ID, claim(t, s, "worker", time.Minute).ID, "after the release")
}

func TestAbortedTaskWaitsForItsWorker(t *testing.T) {
	s, ctx := parallel(t), t.Context()
	first := newTask(t, s, leased("i", "first"))
	_, err := s.Tasks.Abort(ctx, first.ID, "aborted", "aborted")
	require.NoError(t, err)
	for _, other := range []struct {
		lease store.Lease
		owner string
	}{{held(first), "second"}, {store.Lease{ID: first.ID, Epoch: first.Epoch - 1}, "first"}} {
		require.NoError(t, s.Queue.ReleaseCancelled(ctx, other.lease, other.owner))
		expectNoTask(t, s, "while the aborted worker's lease was live")
	}
	require.NoError(t, s.Queue.ReleaseCancelled(ctx, held(first), "first"))
	claimed := claim(t, s, "worker", time.Minute)
	require.True(t, claimed.ID == first.ID && claimed.Phase == store.Cleanup && claimed.Attempt == 0, "%+v", claimed)
	require.NoError(t, s.Queue.ReleaseCancelled(ctx, held(first), "first"))
	assert.NoError(t, s.Queue.Finish(ctx, held(claimed), store.Failed, "", true, nothing),
		"the former worker took the lease from the next one")
}

func TestBindingTasksRunSideBySideButNotBesideTheInstances(t *testing.T) {
	s := parallel(t)
	for _, c := range []struct {
		kind, binding string
		leased        bool
	}{{store.Bind, "a", true}, {store.Bind, "b", true}, {store.Update, "", false}} {
		n := leased("i", "me")
		n.Kind, n.BindingID = c.kind, c.binding
		assert.Equal(t, c.leased, newTask(t, s, n).Leased, "%s %s", c.kind, c.binding)
	}
}

// All old tasks that have ended are deleted and no others, also in several batches and by several brokers at once.
func TestOldTasksAreForgotten(t *testing.T) {
	s, url := fresh(t)
	const old = 3500
	exec(t, url, `INSERT INTO task (instance_id, kind, plan_id, state, created_at, finished_at)
		SELECT 'i' || n, 'bind', 'p', 'succeeded', now() - '3 hours'::interval, now() - '2 hours'::interval
		FROM generate_series(1, 3500) n`,
		`INSERT INTO task (instance_id, kind, plan_id, state, created_at, finished_at) VALUES
		('unfinished', 'bind', 'p', 'in progress', now() - '3 hours'::interval, NULL),
		('young', 'bind', 'p', 'succeeded', now() - '3 hours'::interval, now() - '1 minute'::interval)`)
	var deleted atomic.Int64
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			n, err := s.Tasks.DeleteFinished(t.Context(), time.Hour)
			assert.NoError(t, err)
			deleted.Add(n)
		})
	}
	both.Wait()
	assert.EqualValues(t, old, deleted.Load())
	assert.Equal(t, []string{"unfinished", "young"}, texts(t, url, "SELECT instance_id FROM task ORDER BY 1"))
	n, err := s.Tasks.DeleteFinished(t.Context(), 0)
	assert.True(t, err == nil && n == 0, "deleted the newest task: %d, %v", n, err)
}

func TestTaskStatus(t *testing.T) {
	s := parallel(t)
	id := newTask(t, s, store.NewTask{InstanceID: "i", BindingID: "b", Kind: store.Bind, PlanID: "p"}).ID
	want := store.TaskStatus{Kind: store.Bind, State: store.InProgress}
	got, err := s.Tasks.Status(t.Context(), id, "i", "b")
	require.NoError(t, err)
	assert.Equal(t, want, got)
	for _, other := range []struct {
		id                int64
		instance, binding string
	}{{id + 1000, "i", "b"}, {id, "other", "b"}, {id, "i", ""}} {
		_, err = s.Tasks.Status(t.Context(), other.id, other.instance, other.binding)
		assert.ErrorIs(t, err, store.ErrNotFound, "%+v", other)
	}
}

// A second provision of an instance changes neither its location nor its task.
func TestRecordProvisionOnlyOnce(t *testing.T) {
	s, ctx := parallel(t), t.Context()
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
