package task_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// begin records a task with a runner's lease, and has the runner run it.
func begin(t *testing.T, s *store.Store, r *task.Runner, instanceID string, w task.Workflow) store.Task {
	t.Helper()
	recorded, since := leased(t, s, r, instanceID)
	r.Start(recorded, w, since)
	return recorded
}

func TestStartNeedsNoClaim(t *testing.T) {
	t.Parallel()
	s, j := servers.Store(t), &journal{}
	w := task.Workflow{Steps: []task.Step{j.step("a")}}
	recorded := begin(t, s, start(t, s, w), "i", w)
	got := end(t, s, recorded.ID)
	assert.True(t, got.State == store.Succeeded && got.Epoch == recorded.Epoch, "%+v", got)
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
	}}}}
	busy := startWith(t, s, endless, task.Config{Workers: 1})
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
	t.Parallel()
	s := servers.Store(t)
	const many = 20
	began, release := make(chan bool, many), make(chan bool)
	hang := task.Workflow{Steps: []task.Step{{Name: "hang",
		Do: func(context.Context, *task.Run) error {
			began <- true
			<-release
			return nil
		}}}}
	j := &journal{}
	quick := task.Workflow{Steps: []task.Step{j.step("other")}}
	r := startWith(t, s, quick, task.Config{Workers: 2})
	var all sync.WaitGroup
	request := func(recorded store.Task, since time.Time, w task.Workflow) {
		if ended, err := r.Do(t.Context(), recorded, w, since); err != nil || ended.State != store.Succeeded {
			t.Errorf("%+v, %v", ended, err)
		}
	}
	for n := range many {
		recorded, since := leased(t, s, r, fmt.Sprint("greedy", n))
		all.Go(func() { request(recorded, since, hang) })
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
	t.Helper()
	var n store.NewTask
	n.Owner, n.LeaseTTL = r.Lease()
	since = time.Now()
	return recordOf(t, s, instanceID, n), since
}
