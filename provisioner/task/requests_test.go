package task_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/testdrive"
)

// begin records a task with a runner's lease, and has the runner run it.
func begin(t *testing.T, s *store.Store, r *task.Runner, instanceID string, w task.Workflow) store.Task {
	recorded, since := leased(t, s, r, instanceID)
	r.Start(recorded, w, since)
	return recorded
}

func TestStartNeedsNoClaim(t *testing.T) {
	s, j := parallel(t), &journal{}
	w := task.Workflow{Steps: []task.Step{j.step("a")}}
	recorded := begin(t, s, start(t, s, w), "i", w)
	got := end(t, s, recorded.ID)
	assert.True(t, got.State == store.Succeeded && got.Epoch == recorded.Epoch, "%+v", got)
	j.is(t, "a")
}

func TestStartWithoutAFreeWorkerLeavesTheTaskToOthers(t *testing.T) {
	s, j := parallel(t), &journal{}
	started, release := make(chan bool, 8), make(chan bool)
	busy := startWith(t, s, task.Workflow{Steps: []task.Step{hang(started, release)}}, task.Config{Workers: 1})
	defer close(release)
	recordOf(t, s, "first", store.NewTask{})
	testdrive.Receive(t, started, "the first task begins")
	w := task.Workflow{Steps: []task.Step{j.step("b")}}
	recorded := begin(t, s, busy, "second", w)
	start(t, s, w)
	got := end(t, s, recorded.ID)
	assert.True(t, got.State == store.Succeeded && got.Epoch != recorded.Epoch, "%+v", got)
	j.is(t, "b")
}

// One organization has more requests that hang than there are workers. A request of another one is worked on at once,
// and so is a task for which no request waits.
func TestRequestsKeepNoWorker(t *testing.T) {
	s := parallel(t)
	const many = 20
	began, release := make(chan bool, many), make(chan bool)
	hanging := task.Workflow{Steps: []task.Step{hang(began, release)}}
	j := &journal{}
	quick := task.Workflow{Steps: []task.Step{j.step("other")}}
	r := startWith(t, s, quick, task.Config{Workers: 2})
	var all sync.WaitGroup
	request := func(recorded store.Task, since time.Time, w task.Workflow) {
		ended, err := r.Do(t.Context(), recorded, w, since)
		assert.True(t, err == nil && ended.State == store.Succeeded, "%+v, %v", ended, err)
	}
	for n := range many {
		recorded, since := leased(t, s, r, fmt.Sprint("greedy", n))
		all.Go(func() { request(recorded, since, hanging) })
	}
	for range many {
		testdrive.Receive(t, began, "a request of the greedy one hangs")
	}
	recorded, since := leased(t, s, r, "other")
	request(recorded, since, quick)
	succeeds(t, s, recordOf(t, s, "later", store.NewTask{}).ID)
	j.is(t, "other", "other")
	close(release)
	all.Wait()
}

// leased records a task with a runner's lease, for a request. since is a time before that.
func leased(t *testing.T, s *store.Store, r *task.Runner, instanceID string) (recorded store.Task, since time.Time) {
	var n store.NewTask
	n.Owner, n.LeaseTTL = r.Lease()
	since = time.Now()
	return recordOf(t, s, instanceID, n), since
}

// The cleanup of a cancelled task begins only after its worker has stopped.
func TestCancelUndoesOnceTheWorkerHasStopped(t *testing.T) {
	s, j := parallel(t), &journal{}
	started := make(chan bool, 8)
	undone := false
	w := task.Workflow{
		Steps: []task.Step{j.step("a"), {Name: "b", Progress: "Doing b", Do: func(ctx context.Context, _ *task.Run) error {
			started <- true
			<-ctx.Done()
			time.Sleep(50 * time.Millisecond) // it takes a while to notice
			j.note("b stopped")
			return context.Cause(ctx)
		}}, j.step("c")},
		Cleanup:   []task.Step{j.step("undo")},
		Succeeded: func(*store.Tx, task.Memory) { t.Error("it succeeded") },
		Failed:    func(_ *store.Tx, _ task.Memory, all bool) { undone = all },
	}
	recorded := begin(t, s, startWith(t, s, w, task.Config{LeaseTTL: briskLease}), "i", w)
	testdrive.Receive(t, started, "step b begins")
	_, err := task.Cancel(t.Context(), s, recorded.ID, map[string]task.Kind{store.Provision: {}})
	assert.ErrorContains(t, err, " (provision) cannot be undone", "without a cleanup")
	now, err := s.Tasks.Get(t.Context(), recorded.ID)
	assert.True(t, err == nil && now.Phase == store.Forward, "%+v, %v", now, err)
	known := map[string]task.Kind{store.Provision: {Undoable: true,
		Advice: "Delete the service instance and create it again."}}
	cancelled, err := task.Cancel(t.Context(), s, recorded.ID, known)
	require.NoError(t, err)
	require.True(t, cancelled.State == store.InProgress && cancelled.Phase == store.Cleanup, "%+v", cancelled)
	assert.Regexp(t, "^Cancelled by an operator. Delete the service instance", cancelled.Description)
	again, err := task.Cancel(t.Context(), s, recorded.ID, known)
	assert.True(t, err == nil && again.Epoch >= cancelled.Epoch, "cancelled a second time: %+v, %v", again, err)
	got := end(t, s, recorded.ID)
	assert.True(t, got.State == store.Failed && got.Description == cancelled.Description && undone,
		"%+v, undone: %v", got, undone)
	j.is(t, "a", "b stopped", "undo")
	_, err = task.Cancel(t.Context(), s, recorded.ID, known)
	assert.ErrorContains(t, err, "has failed already", "cancelled after its end")
}

// A cancellation after the end of the task changes nothing.
func TestCancelComesTooLate(t *testing.T) {
	s, j := parallel(t), &journal{}
	w := task.Workflow{Steps: []task.Step{j.step("a")}, Cleanup: []task.Step{j.step("undo")}}
	r := startWith(t, s, w, task.Config{LeaseTTL: shortLease})
	for range 20 {
		recorded := begin(t, s, r, "i", w)
		_, err := task.Cancel(t.Context(), s, recorded.ID, always(w))
		got := end(t, s, recorded.ID)
		assert.Equal(t, err != nil, got.State == store.Succeeded, "cancelled: %v; then it %s", err, got.State)
	}
}

// A token is refused, or is the one that Token makes for its task.
func FuzzParseToken(f *testing.F) {
	for _, seed := range []string{
		"", "task_", "task_0", "task_1", "task_-1", "task_+1", "task_01", "task_1 ", "Task_1", "task_9223372036854775807",
		"task_9223372036854775808", "task_1\x00", "task_\u0661", "provision", "task_1e1", "task_0x1",
	} {
		f.Add(seed, int64(1))
	}
	f.Fuzz(func(t *testing.T, token string, id int64) {
		parsed, ok := task.ParseToken(token)
		assert.False(t, ok && (parsed <= 0 || task.Token(parsed) != token), "%q was taken for task %d", token, parsed)
		parsed, ok = task.ParseToken(task.Token(id))
		assert.False(t, ok != (id > 0) || ok && parsed != id, "task %d came back as %d, %t", id, parsed, ok)
	})
}
