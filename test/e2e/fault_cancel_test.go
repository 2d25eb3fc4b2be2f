package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

const byOperator = "Cancelled by an operator."

func newDesk(t *testing.T, flavour string) desk {
	t.Helper()
	private := testdrive.Private(t, flavour)
	env := testdrive.Environment(t, private)
	faults := testdrive.NewFaults(t, env)
	p := testdrive.StartPlatform(t, private, env)
	return desk{p, p.Operator(env), p.Admin(t), testdrive.OpenTasks(t, env), faults}
}

// failing makes every step of that name fail until enough is called.
func (d desk) failing(step string) (enough func()) {
	d.faults.Decide(func(_ int, point string) testdrive.Word {
		if strings.HasSuffix(point, ": "+step+": begins") {
			return testdrive.Fail
		}
		return testdrive.GoOn
	})
	return func() { d.faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn }) }
}

// latest is the newest task of an instance and its bindings.
func (d desk) latest(t *testing.T, i testdrive.Instance) string {
	t.Helper()
	all := d.IDs(t, "task", "tasks", "--instance", i.ID, "--limit", "1")
	if len(all) != 1 {
		t.Fatalf("tasks of %s: %q", i.ID, all)
	}
	return all[0]
}

func TestFaultCancel(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	d := newDesk(t, s.Flavour)
	t.Run("a provision that is polled", func(t *testing.T) { cancelPolledProvision(t, d) })
	t.Run("a provision that is waited for", func(t *testing.T) { cancelAwaitedProvision(t, d) })
	t.Run("a bind", func(t *testing.T) { cancelBind(t, d) })
	t.Run("an update", func(t *testing.T) { cancelUpdate(t, d) })
	t.Run("a deletion", func(t *testing.T) { cancelDeletion(t, d) })
	testdrive.ExpectTenants(t, d.admin, 0, 0)
}

func cancelPolledProvision(t *testing.T, d desk) {
	i := d.OwnInstance(t, "shared-async")
	release := testdrive.Stall(t, d.admin)
	operation := i.BeginProvision(t)
	testdrive.AwaitStatement(t, d.admin, "CREATE DATABASE")
	d.Run(t, 0, "tasks", "cancel", operation)
	d.Run(t, 0, "tasks", "cancel", operation) // as before
	last := i.Poll(t, "?operation="+operation).Expect(t, http.StatusOK)
	if last.String("state") != "in progress" || !strings.HasPrefix(last.String("description"), byOperator) {
		t.Errorf("while it is undone, a poll is answered %s", last.Raw)
	}
	if again := i.Provision(t, testdrive.Async, nil).Expect(t, http.StatusAccepted).String("operation"); again != operation {
		t.Errorf("a repeat began %s", again)
	}
	release()
	if state, description := d.ended(t, operation); state != "failed" || !strings.HasPrefix(description, byOperator) {
		t.Errorf("it %s: %s", state, description)
	}
	last = i.Poll(t, "?operation="+operation).Expect(t, http.StatusOK)
	if last.String("state") != "failed" || !strings.HasPrefix(last.String("description"), byOperator) {
		t.Errorf("in the end, a poll is answered %s", last.Raw)
	}
	testdrive.ExpectTenants(t, d.admin, 0, 0)
	d.Refuse(t, operation+" has failed already", "tasks", "cancel", operation)
	d.Refuse(t, "the platform knows", "tasks", "retry", operation)
	i.Remove(t)
}

func cancelAwaitedProvision(t *testing.T, d desk) {
	i := d.OwnInstance(t, "shared-small")
	made, release := testdrive.HoldAt(t, d.faults, "after: CREATE DATABASE") // for as long as an operator's commands take
	answers := d.Begin("PUT", i.Path(), i.ProvisionBody(nil))
	testdrive.Receive(t, made, "the database is made")
	d.Run(t, 0, "tasks", "cancel", d.latest(t, i))
	release()
	testdrive.ExpectRefusal(t, <-answers, http.StatusServiceUnavailable, byOperator)
	testdrive.ExpectTenants(t, d.admin, 0, 0)
	i.Fetch(t).Expect(t, http.StatusNotFound)
	testdrive.ExpectEmpty(t, i.Provision(t, testdrive.Sync, nil), http.StatusCreated) // the id is free
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
}

func cancelBind(t *testing.T, d desk) {
	i := d.MakeOwn(t, "shared-small")
	b := i.NewBinding()
	made, release := testdrive.HoldAt(t, d.faults, "after: CREATE USER")
	answers := d.Begin("PUT", b.Path(), b.With(nil))
	testdrive.Receive(t, made, "the account is made")
	d.Run(t, 0, "tasks", "cancel", d.latest(t, i))
	release()
	testdrive.ExpectRefusal(t, <-answers, http.StatusServiceUnavailable, byOperator, "Bind again")
	testdrive.ExpectTenants(t, d.admin, 1, 0)
	b.Fetch(t).Expect(t, http.StatusNotFound)
	d.Credentials(t, b.Bind(t, nil).Expect(t, http.StatusCreated)).Open(t)
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
}

func cancelUpdate(t *testing.T, d desk) {
	i := d.MakeOwn(t, "shared-small")
	_, c := i.Bound(t, nil)
	changed, release := testdrive.HoldAt(t, d.faults, "after: ALTER USER")
	_, planID := testdrive.Plan(t, "shared-large")
	answers := d.Begin("PATCH", i.Path(), body{"service_id": i.ServiceID, "plan_id": planID})
	testdrive.Receive(t, changed, "the account is changed")
	d.Run(t, 0, "tasks", "cancel", d.latest(t, i))
	release()
	testdrive.ExpectRefusal(t, <-answers, http.StatusServiceUnavailable, byOperator, "stays as it was")
	expectConnectionLimit(t, d.admin, c.Username, 30)
	if r := i.Fetch(t).Expect(t, http.StatusOK); r.String("plan_id") != i.PlanID {
		t.Errorf("the instance is %s", r.Raw)
	}
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
}

func cancelDeletion(t *testing.T, d desk) {
	i := d.MakeOwn(t, "shared-small")
	release := testdrive.Stall(t, d.admin)
	answers := d.Begin("DELETE", i.Deletion(i.Path(), testdrive.Sync), nil)
	testdrive.AwaitStatement(t, d.admin, "DROP DATABASE")
	d.Refuse(t, "cannot be undone", "tasks", "cancel", d.latest(t, i))
	release()
	testdrive.ExpectEmpty(t, <-answers, http.StatusOK)
}

// A deletion that overtakes the cleanup of a cancelled task leaves nothing behind.
func TestFaultDeletionOfWhatIsCancelled(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	d := newDesk(t, s.Flavour)
	i := d.OwnInstance(t, "shared-async")
	release := testdrive.Stall(t, d.admin)
	creation := i.BeginProvision(t)
	testdrive.AwaitStatement(t, d.admin, "CREATE DATABASE")
	d.Run(t, 0, "tasks", "cancel", creation)
	deletion := i.Deprovision(t, testdrive.Async).Expect(t, http.StatusAccepted).String("operation")
	release()
	i.Await(t, deletion)
	if state, description := d.ended(t, creation); state != "failed" || !strings.Contains(description, "deleted") {
		t.Errorf("the creation %s: %s", state, description)
	}
	testdrive.ExpectTenants(t, d.admin, 0, 0)
}

func TestFaultRetry(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	d := newDesk(t, s.Flavour)
	t.Run("what waits", func(t *testing.T) { retryWaiting(t, d) })
	t.Run("a deletion that failed", func(t *testing.T) { retryDeletion(t, d) })
	t.Run("an unbind that failed", func(t *testing.T) { retryUnbind(t, d) })
	testdrive.ExpectTenants(t, d.admin, 0, 0)
}

func retryWaiting(t *testing.T, d desk) {
	i := d.OwnInstance(t, "shared-async")
	release := testdrive.Stall(t, d.admin)
	begun, goOn := testdrive.HoldAt(t, d.faults, "before: CREATE DATABASE")
	operation := i.BeginProvision(t)
	testdrive.Receive(t, begun, "a worker makes the database")
	if out := d.Run(t, 0, "tasks", "retry", operation).Stdout; out != operation+" is running.\n" {
		t.Errorf("retry printed %q", out)
	}
	goOn()
	testdrive.Eventually(t, limits.Stuck, "the task waits for a minute", func() bool {
		tag, err := d.tasks.Pool.Exec(t.Context(), `UPDATE task SET run_at = now() + '1 minute'
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

func retryDeletion(t *testing.T, d desk) {
	i := d.MakeOwn(t, "shared-small")
	i.Bound(t, nil)
	enough := d.failing("drop database")
	i.Deprovision(t, testdrive.Sync).Expect(t, http.StatusServiceUnavailable)
	enough()
	failed := d.latest(t, i)
	if got := d.IDs(t, "id", "instances", "--state", "delete-failed"); len(got) != 1 || got[0] != i.ID {
		t.Errorf("deletions that failed: %q", got)
	}
	out := d.Run(t, 0, "tasks", "retry", failed).Stdout
	again := d.latest(t, i)
	if again == failed || out != again+" retries "+failed+".\n" {
		t.Errorf("after %s, %s: %q", failed, again, out)
	}
	if state, _ := d.ended(t, again); state != "succeeded" {
		t.Errorf("the second deletion %s", state)
	}
	// What the platform read of the first one stays so.
	if last := i.Poll(t, "?operation="+failed).Expect(t, http.StatusOK); last.String("state") != "failed" {
		t.Errorf("the first deletion is %s", last.Raw)
	}
	d.Refuse(t, "is gone", "tasks", "retry", failed)
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusGone)
	testdrive.ExpectTenants(t, d.admin, 0, 0)
}

func retryUnbind(t *testing.T, d desk) {
	i := d.MakeOwn(t, "shared-small")
	b, c := i.Bound(t, nil)
	enough := d.failing("end account")
	b.Unbind(t).Expect(t, http.StatusServiceUnavailable)
	enough()
	failed := d.latest(t, i)
	d.Run(t, 0, "tasks", "retry", failed)
	if state, _ := d.ended(t, d.latest(t, i)); state != "succeeded" {
		t.Errorf("the second unbind %s", state)
	}
	testdrive.ExpectRefused(t, c.Fields(t))
	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusGone)
	d.Refuse(t, "is gone", "tasks", "retry", failed)
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
}
