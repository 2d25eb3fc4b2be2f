package task_test

import (
	"context"
	"testing"
	"time"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// begin records a task with a runner's lease, and has the runner run it.
func begin(t *testing.T, s *store.Store, r *task.Runner, instanceID string, w task.Workflow) store.Task {
	t.Helper()
	var n store.NewTask
	n.Owner, n.LeaseTTL = r.Lease()
	since := time.Now()
	recorded := recordOf(t, s, instanceID, n)
	r.Start(recorded, w, since)
	return recorded
}

func TestStartNeedsNoClaim(t *testing.T) {
	t.Parallel()
	s, j := servers.Store(t), &journal{}
	w := task.Workflow{Steps: []task.Step{j.step("a")}, Succeeded: nothing, Failed: ignored}
	recorded := begin(t, s, start(t, s, w), "i", w)
	if got := end(t, s, recorded.ID); got.State != store.Succeeded || got.Epoch != recorded.Epoch {
		t.Errorf("%+v", got)
	}
	j.is(t, "a")
}

func TestStartWithoutAFreeWorkerLeavesTheTaskToOthers(t *testing.T) {
	t.Parallel()
	s, j := servers.Store(t), &journal{}
	started, release := make(chan bool, 8), make(chan bool)
	endless := task.Workflow{Steps: []task.Step{{Name: "a", Do: func(context.Context, *task.Run) error {
		started <- true
		<-release
		return nil
	}}}, Succeeded: nothing, Failed: ignored}
	busy := startWith(t, s, endless, task.Config{Workers: 1})
	defer close(release)
	recordOf(t, s, "first", store.NewTask{})
	testdrive.Receive(t, started, "the first task begins")
	w := task.Workflow{Steps: []task.Step{j.step("b")}, Succeeded: nothing, Failed: ignored}
	recorded := begin(t, s, busy, "second", w)
	start(t, s, w)
	if got := end(t, s, recorded.ID); got.State != store.Succeeded || got.Epoch == recorded.Epoch {
		t.Errorf("%+v", got)
	}
	j.is(t, "b")
}
