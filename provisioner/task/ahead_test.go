package task_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A runner that looks only four times in a long lease is woken by what another process announces.
func TestSleepingRunnerIsWoken(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	_, err := store.Migrate(t.Context(), url)
	require.NoError(t, err)
	own, other, j := servers.OpenStore(t, url), servers.OpenStore(t, url), &journal{}
	w := task.Workflow{Steps: []task.Step{j.step("a")}}
	startWith(t, own, w, task.Config{LeaseTTL: time.Hour})
	testdrive.Eventually(t, limits.Stuck, "announcements arrive", own.Hears)

	succeeds(t, other, recordOf(t, other, "recorded", store.NewTask{}).ID)
	leased := recordOf(t, other, "postponed", store.NewTask{Owner: "other", LeaseTTL: time.Minute})
	lease := store.Lease{ID: leased.ID, Epoch: leased.Epoch}
	require.NoError(t, other.Queue.Postpone(t.Context(), lease, time.Second, 0, ""))
	succeeds(t, other, leased.ID)
	leased = recordOf(t, other, "released", store.NewTask{Owner: "other", LeaseTTL: time.Minute})
	require.NoError(t, other.Queue.Release(t.Context(), store.Lease{ID: leased.ID, Epoch: leased.Epoch}))
	succeeds(t, other, leased.ID)
	j.is(t, "a", "a", "a")
}

// PostgreSQL's clock is set back by an hour: its records lie an hour ahead. The task of a process that died then goes on
// as soon as a whole lease is over, and one that keeps its lease runs once.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	_, err := store.Migrate(t.Context(), url)
	require.NoError(t, err)
	s, j := servers.OpenStore(t, url), &journal{}
	dead := recordOf(t, s, "dead", store.NewTask{Owner: "dead", LeaseTTL: time.Second})
	began, goOn := make(chan bool, 2), make(chan bool)
	w := task.Workflow{Steps: []task.Step{{Name: "hold", Do: func(context.Context, *task.Run) error {
		began <- true
		<-goOn
		return nil
	}}, j.step("a")}}
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
