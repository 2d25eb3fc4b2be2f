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

// sweep is a kind that brokers schedule themselves. Its first task is due in an hour, or once it is asked for.
func sweep(t *testing.T, s *store.Store, step task.Step) map[string]task.Kind {
	w, hourly := task.Workflow{Steps: []task.Step{step}}, store.Schedule{Every: time.Hour}
	_, err := s.Tasks.RecordScheduled(t.Context(), "sweep", hourly)
	require.ErrorIs(t, err, store.ErrNotFound, "the first task is due at once")
	return map[string]task.Kind{"sweep": {Schedule: hourly,
		Workflow: func(context.Context, store.Task) (task.Workflow, error) { return w, nil }}}
}

// ended waits until that many scheduled tasks have succeeded, and returns the newest.
func ended(t *testing.T, s *store.Store, n int) (newest store.Task) {
	testdrive.Eventually(t, "the scheduled tasks end", func() bool {
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
	s, j := parallel(t), &journal{}
	kinds := sweep(t, s, j.step("sweep"))
	startKinds(t, s, kinds, task.Config{})
	startKinds(t, s, kinds, task.Config{})
	require.NoError(t, s.Tasks.MakeDue(t.Context(), "sweep"))
	got := ended(t, s, 1)
	assert.True(t, got.InstanceID == "" && got.Attempt == 0, "%+v", got)
	_, err := task.RunNow(t.Context(), s, "sweep", kinds["sweep"])
	assert.NoError(t, err)
	ended(t, s, 2)
	j.is(t, "sweep", "sweep")
}

// Who asks for a task while one is in progress gets another one after it, because the first may have looked already.
func TestTaskThatIsAskedForFollowsTheOneInProgress(t *testing.T) {
	s, running, release := parallel(t), make(chan bool), make(chan bool)
	kinds := sweep(t, s, hang(running, release))
	startKinds(t, s, kinds, task.Config{})
	first, err := task.RunNow(t.Context(), s, "sweep", kinds["sweep"])
	require.NoError(t, err)
	<-running
	again, err := task.RunNow(t.Context(), s, "sweep", kinds["sweep"])
	assert.True(t, err == nil && again.ID == first.ID, "while %d runs: %+v, %v", first.ID, again, err)
	release <- true
	<-running
	release <- true
	ended(t, s, 2)
}

// A runner that looks only four times in a long lease is woken by what another process announces:
// TestTasksForAnyBrokerAreAnnounced.
func TestSleepingRunnerIsWoken(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	own, other, j := servers.OpenStore(t, url), servers.OpenStore(t, url), &journal{}
	w := task.Workflow{Steps: []task.Step{j.step("a")}}
	startWith(t, own, w, task.Config{LeaseTTL: time.Hour})
	testdrive.Eventually(t, "announcements arrive", own.Hears)

	succeeds(t, other, recordOf(t, other, "recorded", store.NewTask{}).ID)
	leased := recordOf(t, other, "postponed", store.NewTask{Owner: "other", LeaseTTL: time.Minute})
	require.NoError(t, other.Queue.Postpone(t.Context(), held(leased), time.Second, 0, ""))
	succeeds(t, other, leased.ID)
	j.is(t, "a", "a")
}

// PostgreSQL's clock is set back by an hour: its records lie an hour ahead. The task of a process that died then goes on
// as soon as a whole lease is over, and one that keeps its lease runs once.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s, j := servers.OpenStore(t, url), &journal{}
	dead := recordOf(t, s, "dead", store.NewTask{Owner: "dead", LeaseTTL: time.Second})
	began, goOn := make(chan bool, 2), make(chan bool)
	w := task.Workflow{Steps: []task.Step{hang(began, goOn), j.step("a")}}
	startWith(t, s, w, task.Config{LeaseTTL: time.Second})
	working := recordOf(t, s, "working", store.NewTask{})
	testdrive.Receive(t, began, "a task is under way")
	testdrive.OpenTasks(t, map[string]string{"DATABASE_URL": url}).Exec(t, `UPDATE task SET run_at = run_at + '1 hour',
		created_at = created_at + '1 hour', lease_until = lease_until + '1 hour'`)
	testdrive.Receive(t, began, "the task of the dead process goes on")
	close(goOn)
	for _, id := range []int64{dead.ID, working.ID} {
		succeeds(t, s, id)
	}
	j.is(t, "a", "a")
}
