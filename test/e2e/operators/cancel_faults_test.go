package operators

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func newDesk(t *testing.T, flavour string) testdrive.Desk {
	t.Helper()
	private := testdrive.Private(t, flavour)
	env := testdrive.Environment(t, private)
	faults := testdrive.NewFaults(t, env)
	p := testdrive.StartPlatform(t, private, env)
	return p.Desk(t, env, faults)
}

// A task that is cancelled is undone once its worker has stopped. What undoing is for each kind of task, package stage
// tests.
func cancelProvision(t *testing.T, d testdrive.Desk) {
	i := d.OwnInstance(t, "shared-async")
	release := testdrive.Stall(t, d.AdminDB)
	operation := i.BeginProvision(t)
	testdrive.AwaitStatement(t, d.AdminDB, "CREATE DATABASE")
	d.Run(t, 0, "tasks", "cancel", operation)
	d.Run(t, 0, "tasks", "cancel", operation) // as before
	last := i.Poll(t, "?operation="+operation).Expect(t, http.StatusOK)
	if last.String("state") != "in progress" || !strings.HasPrefix(last.String("description"), testdrive.ByOperator) {
		t.Errorf("while it is undone, a poll is answered %s", last.Raw)
	}
	if again := i.Provision(t, testdrive.Async, nil).Expect(t, http.StatusAccepted).String("operation"); again != operation {
		t.Errorf("a repeat began %s", again)
	}
	release()
	if state, description := d.Ended(t, operation); state != "failed" || !strings.HasPrefix(description, testdrive.ByOperator) {
		t.Errorf("it %s: %s", state, description)
	}
	last = i.Poll(t, "?operation="+operation).Expect(t, http.StatusOK)
	if last.String("state") != "failed" || !strings.HasPrefix(last.String("description"), testdrive.ByOperator) {
		t.Errorf("in the end, a poll is answered %s", last.Raw)
	}
	testdrive.ExpectTenants(t, d.AdminDB, 0, 0)
	d.Refuse(t, operation+" has failed already", "tasks", "cancel", operation)
	d.Refuse(t, "the platform knows", "tasks", "retry", operation)
	i.Remove(t)
}

// Operators cancel tasks, and have them tried again.
func TestFaultOperatorsOfTasks(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	d := newDesk(t, s.Flavour)
	t.Run("cancel", func(t *testing.T) { cancelProvision(t, d) })
	t.Run("what waits", func(t *testing.T) { retryWaiting(t, d) })
	t.Run("a deletion that failed", func(t *testing.T) { retryDeletion(t, d) })
	testdrive.ExpectTenants(t, d.AdminDB, 0, 0)
}

func retryWaiting(t *testing.T, d testdrive.Desk) {
	i := d.OwnInstance(t, "shared-async")
	release := testdrive.Stall(t, d.AdminDB)
	begun, goOn := testdrive.HoldAt(t, d.Faults, "before: CREATE DATABASE")
	operation := i.BeginProvision(t)
	testdrive.Receive(t, begun, "a worker makes the database")
	if out := d.Run(t, 0, "tasks", "retry", operation).Stdout; out != operation+" is running.\n" {
		t.Errorf("retry printed %q", out)
	}
	goOn()
	testdrive.Eventually(t, limits.Stuck, "the task waits for a minute", func() bool {
		tag, err := d.Tasks.Pool.Exec(t.Context(), `UPDATE task SET run_at = now() + '1 minute'
			WHERE instance_id = $1 AND state = 'in progress' AND attempt > 0 AND lease_owner IS NULL`, i.ID)
		if err != nil {
			t.Fatal(err)
		}
		return tag.RowsAffected() == 1
	})
	release()
	testdrive.ExpectLine(t, d.Run(t, 0, "tasks", operation).Stdout, "next attempt:")
	testdrive.ExpectLine(t, d.Run(t, 0, "tasks", "--state", "in-progress").Stdout, operation, "waits after attempts that failed: ")
	since := limits.Watch()
	if out := d.Run(t, 0, "tasks", "retry", operation).Stdout; out != operation+" is retried now.\n" {
		t.Errorf("retry printed %q", out)
	}
	i.Await(t, operation)
	since.Done(t, "a task that is retried succeeds", 45*time.Second)
	d.Refuse(t, operation+" has succeeded", "tasks", "retry", operation)
	i.Remove(t)
}

func retryDeletion(t *testing.T, d testdrive.Desk) {
	i := d.MakeOwn(t, "shared-small")
	i.Bound(t, nil)
	enough := d.Failing("drop database")
	i.Deprovision(t, testdrive.Sync).Expect(t, http.StatusServiceUnavailable)
	enough()
	failed := d.Latest(t, i)
	if got := d.IDs(t, "id", "instances", "--state", "delete-failed"); len(got) != 1 || got[0] != i.ID {
		t.Errorf("deletions that failed: %q", got)
	}
	out := d.Run(t, 0, "tasks", "retry", failed).Stdout
	again := d.Latest(t, i)
	if again == failed || out != again+" retries "+failed+".\n" {
		t.Errorf("after %s, %s: %q", failed, again, out)
	}
	if state, _ := d.Ended(t, again); state != "succeeded" {
		t.Errorf("the second deletion %s", state)
	}
	// What the platform read of the first one stays so.
	if last := i.Poll(t, "?operation="+failed).Expect(t, http.StatusOK); last.String("state") != "failed" {
		t.Errorf("the first deletion is %s", last.Raw)
	}
	d.Refuse(t, "is gone", "tasks", "retry", failed)
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusGone)
	testdrive.ExpectTenants(t, d.AdminDB, 0, 0)
}
