package operators

import (
	"database/sql"
	"slices"
	"syscall"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestStopFinishesRequests(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	p := testdrive.StartPlatform(t, private, testdrive.Environment(t, private))
	admin := p.Admin(t)
	i := p.OwnInstance(t, "shared-small")

	release := testdrive.Stall(t, admin)
	answers := p.Begin("PUT", i.Path(), i.ProvisionBody(nil))
	testdrive.AwaitStatement(t, admin, "CREATE DATABASE")
	stopped := limits.Watch()
	p.Signal(t, syscall.SIGTERM)
	p.AwaitLog(t, `"msg":"stopping"`)
	release()
	if r, ok := <-answers; !ok || r.Status != 201 {
		t.Errorf("the request under way was answered %d %s", r.Status, r.Raw)
	}
	testdrive.ExpectStopped(t, p, stopped)
	testdrive.ExpectTenants(t, admin, 1, 0)
}

// An operation under way when its broker stops goes on elsewhere, without waiting for the lease to run out, and stays in
// the trace of the request that asked for it.
func TestStopHandsOver(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	traces := testdrive.StartCollector(t)
	env := tracedEnvironment(t, s, traces)
	first := testdrive.StartPlatform(t, s, env)
	i := first.OwnInstance(t, "dedicated-small")
	release := first.HoldLaunches(t)
	operation := i.BeginProvision(t)
	first.AwaitDescription(t, i, operation)
	second := testdrive.StartPlatform(t, s, env)
	tasks := testdrive.OpenTasks(t, env)
	last, _ := tasks.Latest(t, i.ID, "")

	stopped := limits.Watch()
	first.Signal(t, syscall.SIGTERM)
	tasks.AwaitTakeover(t, i.ID, "", last, testdrive.TakeoverTime)
	expectHandedOver(t, tasks, i.ID)
	testdrive.ExpectStopped(t, first, stopped)
	release()
	i = i.Via(second)
	i.Await(t, operation)
	request := spanOf(t, traces.Spans(), "PUT /v2/service_instances/{instance_id}")
	for epoch := range 2 {
		expectParent(t, spanOf(t, awaitTask(t, traces, "provision", epoch+1), "task provision"), request)
	}
	i.Remove(t)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
}

// expectHandedOver fails the test unless the worker that an instance's task had before gave its lease back: where one
// runs out, whoever takes the task over counts that as an attempt.
func expectHandedOver(t *testing.T, ts testdrive.Tasks, instanceID string) {
	t.Helper()
	var attempt int
	ts.Scan(t, &attempt, "SELECT attempt FROM task WHERE instance_id = $1", instanceID)
	if attempt != 0 {
		t.Errorf("the task was not handed over: %d leases on it ran out", attempt)
	}
}

func TestStopLeavesDedicatedServers(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	first := testdrive.StartPlatform(t, s, env)
	i := first.MakeOwn(t, "dedicated-small")
	b, c := i.Bound(t, nil)
	db := c.Open(t)
	before := testdrive.Mysqlds(t, env["LAUNCHER_DIR"])
	first.Signal(t, syscall.SIGTERM)
	testdrive.ExpectStopped(t, first, limits.Watch())
	testdrive.Exec(t, db, "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (7)")

	i = i.Via(testdrive.StartPlatform(t, s, env))
	b.Instance = i
	if again := i.Credentials(t, b.Fetch(t).Expect(t, 200)); again != c {
		t.Error("the credentials are not those of before")
	}
	if after := testdrive.Mysqlds(t, env["LAUNCHER_DIR"]); len(after) != 1 || !slices.Equal(after, before) {
		t.Errorf("the servers that run: %v, before: %v", after, before)
	}
	expectAdopted(t, before[0], testdrive.Connect(t, c.Fields(t)))
	if n := testdrive.Read[int](t, c.Open(t), "SELECT n FROM kept"); n != 7 {
		t.Errorf("the row reads %d", n)
	}
	i.Remove(t)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
}

// expectAdopted fails the test unless the broker restarts the server after it was killed.
func expectAdopted(t *testing.T, pid int, db *sql.DB) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testdrive.Eventually(t, testdrive.RestartTime, "the server is started again", func() bool {
		return db.PingContext(t.Context()) == nil
	})
}
