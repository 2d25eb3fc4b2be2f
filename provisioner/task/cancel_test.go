package task_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// The cleanup of a cancelled task begins only after its worker has stopped.
func TestCancelUndoesOnceTheWorkerHasStopped(t *testing.T) {
	t.Parallel()
	s, j := servers.Store(t), &journal{}
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
	t.Parallel()
	s, j := servers.Store(t), &journal{}
	w := task.Workflow{Steps: []task.Step{j.step("a")}, Cleanup: []task.Step{j.step("undo")}}
	r := startWith(t, s, w, task.Config{LeaseTTL: shortLease})
	for range 20 {
		recorded := begin(t, s, r, "i", w)
		_, err := task.Cancel(t.Context(), s, recorded.ID, always(w))
		got := end(t, s, recorded.ID)
		assert.Equal(t, err != nil, got.State == store.Succeeded, "cancelled: %v; then it %s", err, got.State)
	}
}

// A task whose workflow has no cleanup cannot be cancelled.
func TestCancelRefusesWhatCannotBeUndone(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	recorded := record(t, s, store.NewTask{})
	_, err := task.Cancel(t.Context(), s, recorded.ID, map[string]task.Kind{store.Provision: {}})
	assert.ErrorContains(t, err, "cannot be undone")
	now, err := s.Tasks.Get(t.Context(), recorded.ID)
	assert.True(t, err == nil && now.Phase == store.Forward, "%+v, %v", now, err)
}
