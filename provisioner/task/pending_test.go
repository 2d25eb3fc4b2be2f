package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// crane is something outside that goes on by itself: it is ordered once and is ready after some looks.
type crane struct {
	journal
	ready int // after so many looks
}

const orderKey task.Key[struct{ ID, Looks int }] = "order"

// lift places an order, and looks for it repeatedly. Only the task's memory has the order, and the number of looks.
func (c *crane) lift() task.Step {
	return task.Step{Name: "lift", Progress: "Lifting", Do: func(ctx context.Context, run *task.Run) error {
		order, found, err := orderKey.Recall(run)
		if err != nil {
			return err
		}
		if !found {
			c.note("order")
			order.ID = 7
		} else {
			c.note(fmt.Sprintf("look at %d", order.ID))
			order.Looks++
		}
		if err := orderKey.Remember(run, order); err != nil {
			return err
		}
		if order.Looks < c.ready {
			return task.Pending(time.Millisecond, fmt.Sprintf("Lifting, look %d", order.Looks))
		}
		return nil
	}}
}

// A pending step runs again any number of times without counting as a failure, and keeps its memory.
func TestPendingStepRunsAgain(t *testing.T) {
	s := parallel(t)
	recorded := record(t, s, store.NewTask{})
	c := crane{ready: 9}
	var outcome atomic.Value
	startWith(t, s, task.Workflow{Steps: []task.Step{c.step("before"), c.lift(), c.step("after")},
		Succeeded: func(_ *store.Tx, m task.Memory) { outcome.Store(m) }}, task.Config{Attempts: 2})
	assert.Empty(t, succeeds(t, s, recorded.ID).LastError)
	looks := slices.Repeat([]string{"look at 7"}, c.ready)
	c.is(t, slices.Concat([]string{"before", "order"}, looks, []string{"after"})...)
	order, found, err := orderKey.In(outcome.Load().(task.Memory))
	assert.True(t, found && err == nil && order.Looks == c.ready, "remembered %v, %v: %+v", found, err, order)
}

// A pending step holds no worker: a runner with one worker runs other tasks. Users read its progress.
func TestPendingStepHoldsNoWorker(t *testing.T) {
	s := parallel(t)
	slow, quick := recordOf(t, s, "slow", store.NewTask{}), recordOf(t, s, "quick", store.NewTask{})
	var j journal
	steps := map[int64]task.Step{quick.ID: j.step("quick"),
		slow.ID: j.step("slow", task.Pending(time.Minute, "Waiting for the crane"))}
	workflow := func(_ context.Context, of store.Task) (task.Workflow, error) {
		return task.Workflow{Steps: []task.Step{steps[of.ID]}}, nil
	}
	startKinds(t, s, kinds(workflow), task.Config{Workers: 1})
	end(t, s, quick.ID)
	awaitTask(t, s, slow.ID, "the slow one is given back", func(now store.Task) bool {
		return !now.Leased && now.State == store.InProgress && now.Description == "Waiting for the crane (1 of 1)"
	})
	_, err := s.Tasks.RetryNow(t.Context(), slow.ID)
	require.NoError(t, err)
	succeeds(t, s, slow.ID)
}

// A request waits for the end of a task whose step is pending.
func TestRequestWaitsForAPendingStep(t *testing.T) {
	s := parallel(t)
	c := crane{ready: 3}
	w := task.Workflow{Steps: []task.Step{c.lift()}}
	r := start(t, s, w)
	recorded, since := leased(t, s, r, "i")
	ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
	defer cancel()
	ended, err := r.Do(ctx, recorded, w, since)
	assert.True(t, err == nil && ended.State == store.Succeeded, "%v: %+v", err, ended)
	c.is(t, "order", "look at 7", "look at 7", "look at 7")
}

// A step that is pending for longer than the task may wait fails, and the task is cleaned up. Cleanup steps may be
// pending too.
func TestPendingEnds(t *testing.T) {
	s := parallel(t)
	recorded := record(t, s, store.NewTask{})
	never := task.Step{Name: "a", Progress: "Doing a", Do: func(context.Context, *task.Run) error {
		return task.Pending(10*time.Millisecond, "")
	}}
	var j journal
	undo := j.step("undo", task.Pending(time.Millisecond, "not shown"), task.Pending(time.Millisecond, "not shown"))
	w, undone := undoing(undo, never)
	startWith(t, s, w, task.Config{MaxWait: func(store.Task) time.Duration { return 5 * time.Second }})
	ended := end(t, s, recorded.ID)
	assert.True(t, ended.State == store.Failed && strings.Contains(ended.Description, "Doing a failed. Try again."),
		"%+v", ended)
	assert.True(t, undone.Load(), "it is not undone")
	j.is(t, "undo", "undo", "undo")
}

// How long a task has waited is not measured by the clock of a broker's host.
func TestHostsClock(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ahead string // of PostgreSQL's clock
		max   time.Duration
		yet   error // of the first looks
		want  string
	}{
		{"-2 hours", time.Hour, task.Pending(10*time.Millisecond, ""), store.Succeeded},
		{"2 hours", time.Second, task.Pending(10*time.Millisecond, ""), store.Failed},
		{"-2 hours", time.Hour, errAway, store.Succeeded},
	} {
		url := servers.PostgresAhead(t, servers.Postgres(t), test.ahead)
		s := servers.OpenStore(t, url)
		recorded := record(t, s, store.NewTask{})
		testdrive.OpenTasks(t, map[string]string{"DATABASE_URL": url}).Exec(t,
			"UPDATE task SET created_at = now(), run_at = now()") // the defaults are not by this clock
		var looks atomic.Int32
		took := make(chan time.Duration, 1)
		startWith(t, s, task.Workflow{Steps: []task.Step{{Name: "a", Do: func(ctx context.Context, run *task.Run) error {
			apart := time.Until(run.Now()).Abs()
			assert.InDelta(t, 2*time.Hour, apart, float64(time.Hour), "the clocks are apart by")
			const key task.Key[time.Time] = "since"
			assert.NoError(t, key.Save(ctx, run, run.Now()))
			since, err := task.Since(run, key)
			assert.NoError(t, err)
			assert.Less(t, since.Abs(), time.Hour, "since what was now")
			if test.want == store.Succeeded && looks.Add(1) > 3 {
				return nil
			}
			return test.yet
		}}}}, task.Config{MaxWait: func(store.Task) time.Duration { return test.max },
			OnEnd: func(_ store.Task, _ string, after time.Duration) { took <- after }})
		assert.Equal(t, test.want, end(t, s, recorded.ID).State, "PostgreSQL's clock is ahead by %s, %v", test.ahead, test.yet)
		after := testdrive.Receive(t, took, "the end is reported")
		assert.InDelta(t, 0, after, float64(time.Hour), "how long it took when PostgreSQL's clock is ahead by %s", test.ahead)
	}
}

// A process may claim a task again before it has dropped the lease that it gave back. The new lease is kept.
func TestLeaseOutlivesTheOneBefore(t *testing.T) {
	s := parallel(t)
	const tasks, times = 8, 50
	var runs atomic.Int32
	undo := task.Step{Name: "undo", Do: func(context.Context, *task.Run) error {
		time.Sleep(5 * time.Millisecond) // long enough for the next claim
		if n := runs.Add(1); n > tasks*times {
			return nil
		}
		return task.Pending(0, "")
	}}
	start(t, s, task.Workflow{Cleanup: []task.Step{undo}, Steps: []task.Step{{Name: "a",
		Do: func(context.Context, *task.Run) error { return task.Permanent("No.", errBoom) }}}})
	var all []int64
	for n := range tasks {
		all = append(all, recordOf(t, s, fmt.Sprint(n), store.NewTask{}).ID)
	}
	for _, id := range all {
		end(t, s, id)
	}
	assert.EqualValues(t, tasks*(times+1), runs.Load(), "a step ran under a lease that was lost")
}

// The memory of a step outlives its worker. What it has forgotten is gone, and it begins again to count the time.
func TestMemoryOutlivesTheWorker(t *testing.T) {
	s := parallel(t)
	recorded := record(t, s, store.NewTask{})
	const since, other task.Key[time.Time] = "since", "other"
	stored := func(want string) {
		now, err := s.Tasks.Get(t.Context(), recorded.ID)
		raw, _ := json.Marshal(now.Memory)
		assert.True(t, err == nil && string(raw) == want, "stored %s, %v", raw, err)
	}
	begun := time.Now().UTC().Add(-time.Hour)
	saved := `"` + begun.Format(time.RFC3339Nano) + `"`
	died := false
	start(t, s, task.Workflow{Steps: []task.Step{
		{Name: "a", Progress: "Doing a", Do: func(ctx context.Context, run *task.Run) error {
			if !died {
				assert.NoError(t, since.Save(ctx, run, begun))
				stored(`{"since":` + saved + `}`)
				died = true
				panic("the worker dies")
			}
			at, found, err := since.Recall(run)
			assert.True(t, found && err == nil && at.Equal(begun), "found %t, %v, %v", found, at, err)
			since.Forget(run)
			assert.NoError(t, other.Save(ctx, run, begun))
			stored(`{"other":` + saved + `}`)
			took, err := task.Since(run, since)
			assert.True(t, err == nil && took <= time.Minute, "since %s, %v", took, err)
			return nil
		}}}})
	succeeds(t, s, recorded.ID)
	assert.True(t, died)
}

// A task of a kind that only a newer release knows waits for a broker of that release, and nothing is undone.
func TestUnknownKindWaits(t *testing.T) {
	s := parallel(t)
	recorded := record(t, s, store.NewTask{Kind: "backup"})
	var j journal
	w := task.Workflow{Steps: []task.Step{j.step("a")}}
	startWith(t, s, w, task.Config{Attempts: 1})
	awaitTask(t, s, recorded.ID, "the old release leaves it", func(now store.Task) bool {
		return now.State == store.InProgress && strings.Contains(now.LastError, `"backup"`)
	})
	newer := kinds(nil)
	newer["backup"] = always(w)[store.Provision]
	startKinds(t, s, newer, task.Config{})
	assert.Zero(t, succeeds(t, s, recorded.ID).Attempt)
	j.is(t, "a")
}
