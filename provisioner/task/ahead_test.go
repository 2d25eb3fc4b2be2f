package task_test

import (
	"testing"
	"time"

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
	if _, err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	own, other, j := servers.OpenStore(t, url), servers.OpenStore(t, url), &journal{}
	w := task.Workflow{Steps: []task.Step{j.step("a")}, Succeeded: nothing, Failed: ignored}
	startWith(t, own, w, task.Config{LeaseTTL: time.Hour})
	testdrive.Eventually(t, limits.Stuck, "announcements arrive", own.Hears)

	if got := end(t, other, recordOf(t, other, "recorded", store.NewTask{}).ID); got.State != store.Succeeded {
		t.Errorf("%+v", got)
	}
	leased := recordOf(t, other, "postponed", store.NewTask{Owner: "other", LeaseTTL: time.Minute})
	lease := store.Lease{ID: leased.ID, Epoch: leased.Epoch}
	if err := other.Postpone(t.Context(), lease, time.Second, 0, ""); err != nil {
		t.Fatal(err)
	}
	if got := end(t, other, leased.ID); got.State != store.Succeeded {
		t.Errorf("%+v", got)
	}
	leased = recordOf(t, other, "released", store.NewTask{Owner: "other", LeaseTTL: time.Minute})
	if err := other.ReleaseLease(t.Context(), store.Lease{ID: leased.ID, Epoch: leased.Epoch}); err != nil {
		t.Fatal(err)
	}
	if got := end(t, other, leased.ID); got.State != store.Succeeded {
		t.Errorf("%+v", got)
	}
	j.is(t, "a", "a", "a")
}
