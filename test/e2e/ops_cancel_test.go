package e2e

import (
	"database/sql"
	"net/http"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

const byOperator = "Cancelled by an operator."

// undoTime limits how long an operation may take to end after it was cancelled while a worker ran it: its lease, plus
// time for a busy machine.
const undoTime = leaseTime + 3*time.Minute

// desk is a broker with a private server, which tests can stall, and an operator's commands.
type desk struct {
	platform
	operator
	admin  *sql.DB
	tasks  tasks
	faults *testdrive.Faults
}

func newDesk(t *testing.T, flavour string) desk {
	t.Helper()
	private := testdrive.Private(t, flavour)
	env := testdrive.Environment(t, private)
	faults := testdrive.NewFaults(t, env)
	p := startPlatform(t, private, env)
	return desk{p, p.operator(env), p.admin(t), openTasks(t, env), faults}
}

// interrupted prepares a test that kills the broker while it works with the data of an instance. restart starts another
// one.
func interrupted(t *testing.T, flavour string, configure func(env map[string]string)) (d desk, i instance,
	c credentials, restart func() platform) {
	t.Helper()
	private := testdrive.Private(t, flavour)
	env := testdrive.Environment(t, private)
	configure(env)
	faults := testdrive.NewFaults(t, env)
	ts := openTasks(t, env)
	restart = func() platform {
		t.Helper()
		testdrive.ExpireLeases(t, ts.pool)
		return startPlatform(t, private, env)
	}
	p := startPlatform(t, private, env)
	i = p.ownInstance(t, "shared-small")
	i.provision(t, now, body{"context": cloudFoundry}).Expect(t, http.StatusCreated)
	return desk{p, p.operator(env), p.admin(t), ts, faults}, i, makeObjects(t, i), restart
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
func (d desk) latest(t *testing.T, i instance) string {
	t.Helper()
	all := d.ids(t, "task", "tasks", "--instance", i.id, "--limit", "1")
	if len(all) != 1 {
		t.Fatalf("tasks of %s: %q", i.id, all)
	}
	return all[0]
}

// ended waits until a task has ended, and returns how.
func (d desk) ended(t *testing.T, task string) (state, description string) {
	t.Helper()
	return d.outcome(t, d.tasks, task)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		d := newDesk(t, s.Flavour)
		t.Run("a provision that is polled", func(t *testing.T) { cancelPolledProvision(t, d) })
		t.Run("a provision that is waited for", func(t *testing.T) { cancelAwaitedProvision(t, d) })
		t.Run("a bind", func(t *testing.T) { cancelBind(t, d) })
		t.Run("an update", func(t *testing.T) { cancelUpdate(t, d) })
		t.Run("a deletion", func(t *testing.T) { cancelDeletion(t, d) })
		expectTenants(t, d.admin, 0, 0)
	})
}

func cancelPolledProvision(t *testing.T, d desk) {
	i := d.ownInstance(t, "shared-async")
	release := stall(t, d.admin)
	operation := i.begin(t)
	awaitStatement(t, d.admin, "CREATE DATABASE")
	d.run(t, 0, "tasks", "cancel", operation)
	d.run(t, 0, "tasks", "cancel", operation) // as before
	last := i.poll(t, "?operation="+operation).Expect(t, http.StatusOK)
	if last.String("state") != "in progress" || !strings.HasPrefix(last.String("description"), byOperator) {
		t.Errorf("while it is undone, a poll is answered %s", last.Raw)
	}
	if again := i.provision(t, later, nil).Expect(t, http.StatusAccepted).String("operation"); again != operation {
		t.Errorf("a repeat began %s", again)
	}
	release()
	if state, description := d.ended(t, operation); state != "failed" || !strings.HasPrefix(description, byOperator) {
		t.Errorf("it %s: %s", state, description)
	}
	last = i.poll(t, "?operation="+operation).Expect(t, http.StatusOK)
	if last.String("state") != "failed" || !strings.HasPrefix(last.String("description"), byOperator) {
		t.Errorf("in the end, a poll is answered %s", last.Raw)
	}
	expectTenants(t, d.admin, 0, 0)
	d.refuse(t, operation+" has failed already", "tasks", "cancel", operation)
	d.refuse(t, "the platform knows", "tasks", "retry", operation)
	i.remove(t)
}

func cancelAwaitedProvision(t *testing.T, d desk) {
	i := d.ownInstance(t, "shared-small")
	made, release := holdAt(t, d.faults, "after: CREATE DATABASE") // for as long as an operator's commands take
	answers := d.Begin("PUT", i.path(), i.provisionBody(nil))
	testdrive.Receive(t, made, "the database is made")
	d.run(t, 0, "tasks", "cancel", d.latest(t, i))
	release()
	expectRefusal(t, <-answers, http.StatusServiceUnavailable, byOperator)
	expectTenants(t, d.admin, 0, 0)
	i.fetch(t).Expect(t, http.StatusNotFound)
	expectEmpty(t, i.provision(t, now, nil), http.StatusCreated) // the id is free
	expectEmpty(t, i.deprovision(t, now), http.StatusOK)
}

func cancelBind(t *testing.T, d desk) {
	i := d.makeOwn(t, "shared-small")
	b := i.newBinding()
	made, release := holdAt(t, d.faults, "after: CREATE USER")
	answers := d.Begin("PUT", b.path(), b.with(nil))
	testdrive.Receive(t, made, "the account is made")
	d.run(t, 0, "tasks", "cancel", d.latest(t, i))
	release()
	expectRefusal(t, <-answers, http.StatusServiceUnavailable, byOperator, "Bind again")
	expectTenants(t, d.admin, 1, 0)
	b.fetch(t).Expect(t, http.StatusNotFound)
	d.credentials(t, b.bind(t, nil).Expect(t, http.StatusCreated)).open(t)
	expectEmpty(t, i.deprovision(t, now), http.StatusOK)
}

func cancelUpdate(t *testing.T, d desk) {
	i := d.makeOwn(t, "shared-small")
	_, c := i.bound(t, nil)
	changed, release := holdAt(t, d.faults, "after: ALTER USER")
	_, planID := testdrive.Plan(t, "shared-large")
	answers := d.Begin("PATCH", i.path(), body{"service_id": i.serviceID, "plan_id": planID})
	testdrive.Receive(t, changed, "the account is changed")
	d.run(t, 0, "tasks", "cancel", d.latest(t, i))
	release()
	expectRefusal(t, <-answers, http.StatusServiceUnavailable, byOperator, "stays as it was")
	expectConnectionLimit(t, d.admin, c.Username, 30)
	if r := i.fetch(t).Expect(t, http.StatusOK); r.String("plan_id") != i.planID {
		t.Errorf("the instance is %s", r.Raw)
	}
	expectEmpty(t, i.deprovision(t, now), http.StatusOK)
}

func cancelDeletion(t *testing.T, d desk) {
	i := d.makeOwn(t, "shared-small")
	release := stall(t, d.admin)
	answers := d.Begin("DELETE", i.deletion(i.path(), now), nil)
	awaitStatement(t, d.admin, "DROP DATABASE")
	d.refuse(t, "cannot be undone", "tasks", "cancel", d.latest(t, i))
	release()
	expectEmpty(t, <-answers, http.StatusOK)
}

// A deletion that overtakes the cleanup of a cancelled task leaves nothing behind.
func TestDeletionOfWhatIsCancelled(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		d := newDesk(t, s.Flavour)
		i := d.ownInstance(t, "shared-async")
		release := stall(t, d.admin)
		creation := i.begin(t)
		awaitStatement(t, d.admin, "CREATE DATABASE")
		d.run(t, 0, "tasks", "cancel", creation)
		deletion := i.deprovision(t, later).Expect(t, http.StatusAccepted).String("operation")
		release()
		i.await(t, deletion)
		if state, description := d.ended(t, creation); state != "failed" || !strings.Contains(description, "deleted") {
			t.Errorf("the creation %s: %s", state, description)
		}
		expectTenants(t, d.admin, 0, 0)
	})
}

func TestRetry(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		d := newDesk(t, s.Flavour)
		t.Run("what waits", func(t *testing.T) { retryWaiting(t, d) })
		t.Run("a deletion that failed", func(t *testing.T) { retryDeletion(t, d) })
		t.Run("an unbind that failed", func(t *testing.T) { retryUnbind(t, d) })
		expectTenants(t, d.admin, 0, 0)
	})
}

func retryWaiting(t *testing.T, d desk) {
	i := d.ownInstance(t, "shared-async")
	release := stall(t, d.admin)
	begun, goOn := holdAt(t, d.faults, "before: CREATE DATABASE")
	operation := i.begin(t)
	testdrive.Receive(t, begun, "a worker makes the database")
	if out := d.run(t, 0, "tasks", "retry", operation).Stdout; out != operation+" is running.\n" {
		t.Errorf("retry printed %q", out)
	}
	goOn()
	testdrive.Eventually(t, testdrive.Patience, "the task waits for a minute", func() bool {
		tag, err := d.tasks.pool.Exec(t.Context(), `UPDATE task SET run_at = now() + '1 minute'
			WHERE instance_id = $1 AND state = 'in progress' AND attempt > 0 AND lease_owner IS NULL`, i.id)
		if err != nil {
			t.Fatal(err)
		}
		return tag.RowsAffected() == 1
	})
	release()
	expectLine(t, d.run(t, 0, "tasks", operation).Stdout, "next attempt:")
	expectLine(t, d.run(t, 0, "tasks", "--state", "in-progress").Stdout, operation, "waits after attempts that failed: ")
	since := time.Now()
	if out := d.run(t, 0, "tasks", "retry", operation).Stdout; out != operation+" is retried now.\n" {
		t.Errorf("retry printed %q", out)
	}
	i.await(t, operation)
	if took := time.Since(since); took > 45*time.Second {
		t.Errorf("it succeeded after %v", took)
	}
	d.refuse(t, operation+" has succeeded", "tasks", "retry", operation)
	i.remove(t)
}

func retryDeletion(t *testing.T, d desk) {
	i := d.makeOwn(t, "shared-small")
	i.bound(t, nil)
	enough := d.failing("drop database")
	i.deprovision(t, now).Expect(t, http.StatusServiceUnavailable)
	enough()
	failed := d.latest(t, i)
	if got := d.ids(t, "id", "instances", "--state", "delete-failed"); len(got) != 1 || got[0] != i.id {
		t.Errorf("deletions that failed: %q", got)
	}
	out := d.run(t, 0, "tasks", "retry", failed).Stdout
	again := d.latest(t, i)
	if again == failed || out != again+" retries "+failed+".\n" {
		t.Errorf("after %s, %s: %q", failed, again, out)
	}
	if state, _ := d.ended(t, again); state != "succeeded" {
		t.Errorf("the second deletion %s", state)
	}
	// What the platform read of the first one stays so.
	if last := i.poll(t, "?operation="+failed).Expect(t, http.StatusOK); last.String("state") != "failed" {
		t.Errorf("the first deletion is %s", last.Raw)
	}
	d.refuse(t, "is gone", "tasks", "retry", failed)
	expectEmpty(t, i.deprovision(t, now), http.StatusGone)
	expectTenants(t, d.admin, 0, 0)
}

func retryUnbind(t *testing.T, d desk) {
	i := d.makeOwn(t, "shared-small")
	b, c := i.bound(t, nil)
	enough := d.failing("end account")
	b.unbind(t).Expect(t, http.StatusServiceUnavailable)
	enough()
	failed := d.latest(t, i)
	d.run(t, 0, "tasks", "retry", failed)
	if state, _ := d.ended(t, d.latest(t, i)); state != "succeeded" {
		t.Errorf("the second unbind %s", state)
	}
	expectRefused(t, c.fields(t))
	expectEmpty(t, b.unbind(t), http.StatusGone)
	d.refuse(t, "is gone", "tasks", "retry", failed)
	expectEmpty(t, i.deprovision(t, now), http.StatusOK)
}
