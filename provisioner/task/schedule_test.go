package task_test

import (
	"context"
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

// sweep is a kind that brokers schedule themselves.
func sweep(j *journal) map[string]task.Kind {
	w := task.Workflow{Steps: []task.Step{j.step("sweep")}}
	return map[string]task.Kind{"sweep": {Schedule: store.Schedule{Every: time.Hour},
		Workflow: func(context.Context, store.Task) (task.Workflow, error) { return w, nil }}}
}

// ended waits until that many scheduled tasks have succeeded, and returns the newest.
func ended(t *testing.T, s *store.Store, n int) (newest store.Task) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, "the scheduled tasks end", func() bool {
		succeeded := 0
		require.NoError(t, s.Tasks.Each(t.Context(), store.TaskQuery{Kind: "sweep", State: store.Succeeded},
			func(store.ListedTask) error { succeeded++; return nil }))
		return succeeded == n
	})
	newest, err := s.Tasks.Latest(t.Context(), "", "", "sweep")
	require.NoError(t, err)
	return newest
}

// Two brokers look for scheduled tasks; each task that is due runs once.
func TestScheduledTasksRunOnce(t *testing.T) {
	t.Parallel()
	s, j := servers.Store(t), &journal{}
	kinds := sweep(j)
	startKinds(t, s, kinds, task.Config{})
	startKinds(t, s, kinds, task.Config{})
	_, err := s.Tasks.RecordScheduled(t.Context(), "sweep", kinds["sweep"].Schedule)
	assert.Error(t, err, "the first task is due at once")
	require.NoError(t, s.Tasks.MakeDue(t.Context(), "sweep"))
	got := ended(t, s, 1)
	assert.True(t, got.InstanceID == "" && got.Attempt == 0, "%+v", got)
	_, err = task.RunNow(t.Context(), s, "sweep", kinds["sweep"])
	assert.NoError(t, err)
	ended(t, s, 2)
	j.is(t, "sweep", "sweep")
}

// Who asks for a task while one is in progress gets another one after it, because the first may have looked already.
func TestTaskThatIsAskedForFollowsTheOneInProgress(t *testing.T) {
	t.Parallel()
	s, j := servers.Store(t), &journal{}
	kinds, running, release := sweep(j), make(chan struct{}), make(chan struct{})
	w := task.Workflow{Steps: []task.Step{{Name: "sweep", Do: func(context.Context, *task.Run) error {
		running <- struct{}{}
		<-release
		return nil
	}}}}
	kinds["sweep"] = task.Kind{Schedule: kinds["sweep"].Schedule,
		Workflow: func(context.Context, store.Task) (task.Workflow, error) { return w, nil }}
	_, err := s.Tasks.RecordScheduled(t.Context(), "sweep", kinds["sweep"].Schedule)
	assert.Error(t, err, "the first task is due at once")
	startKinds(t, s, kinds, task.Config{})
	first, err := task.RunNow(t.Context(), s, "sweep", kinds["sweep"])
	require.NoError(t, err)
	<-running
	again, err := task.RunNow(t.Context(), s, "sweep", kinds["sweep"])
	assert.True(t, err == nil && again.ID == first.ID, "while %d runs: %+v, %v", first.ID, again, err)
	release <- struct{}{}
	<-running
	release <- struct{}{}
	ended(t, s, 2)
}

// A broker that died leaves its scheduled task to another one.
func TestScheduledTaskIsTakenOver(t *testing.T) {
	t.Parallel()
	s, j := servers.Store(t), &journal{}
	kinds := sweep(j)
	_, err := s.Tasks.RecordScheduled(t.Context(), "sweep", kinds["sweep"].Schedule)
	assert.Error(t, err, "the first task is due at once")
	recorded, err := task.RunNow(t.Context(), s, "sweep", kinds["sweep"])
	require.NoError(t, err)
	dead, err := s.Queue.Claim(t.Context(), "dead", shortLease, store.Passed{})
	require.True(t, err == nil && dead.ID == recorded.ID, "%+v, %v", dead, err)
	startKinds(t, s, kinds, task.Config{})
	got := ended(t, s, 1)
	assert.True(t, got.ID == recorded.ID && got.Attempt == 1, "%+v", got)
	j.is(t, "sweep")
}
