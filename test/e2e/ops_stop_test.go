package e2e

import (
	"database/sql"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestStopFinishesRequests(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		p := startPlatform(t, private, testdrive.Environment(t, private))
		admin := p.admin(t)
		i := p.ownInstance(t, "shared-small")

		release := stall(t, admin)
		answers := p.Begin("PUT", i.path(), i.provisionBody(nil))
		awaitStatement(t, admin, "CREATE DATABASE")
		stopped := time.Now()
		p.Signal(t, syscall.SIGTERM)
		p.AwaitLog(t, `"msg":"stopping"`)
		release()
		if r, ok := <-answers; !ok || r.Status != 201 {
			t.Errorf("the request under way was answered %d %s", r.Status, r.Raw)
		}
		expectStopped(t, p, stopped)
		expectTenants(t, admin, 1, 0)
	})
}

// A broker stops in time though a request and a round of measuring are under way, and PostgreSQL answers neither.
func TestStopWithoutPostgres(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := quotaEnvironment(t, private)
		network, through := testdrive.ProxyURL(t, env["DATABASE_URL"])
		env["DATABASE_URL"] = through
		faults := testdrive.NewFaults(t, env)
		p := startPlatform(t, private, env)
		full, other := p.makeOwn(t, "shared-small"), p.ownInstance(t, "shared-small")
		_, c := full.bound(t, nil)
		round, request := newGate(t, "quota: recorded"), newGate(t, "before: CREATE DATABASE")
		faults.Decide(func(_ int, at string) testdrive.Word {
			round.pass(at)
			request.pass(at)
			return testdrive.GoOn
		})
		fill(t, c.open(t), 41)
		testdrive.Receive(t, round.reached, "the round of measuring is under way")
		answer := p.Begin("PUT", other.path(), other.provisionBody(nil))
		testdrive.Receive(t, request.reached, "the request is under way")
		network.Freeze()
		stopped := time.Now()
		p.Signal(t, syscall.SIGTERM)
		p.AwaitLog(t, `"msg":"stopping"`)
		round.release()
		request.release()
		testdrive.Receive(t, answer, "the request is answered")
		expectStopped(t, p, stopped)
	})
}

func expectStopped(t *testing.T, p platform, since time.Time) {
	t.Helper()
	if status := p.Wait(t); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if took := time.Since(since); took > stopTime {
		t.Errorf("the broker took %v to stop", took)
	}
}

// An operation under way when its broker stops goes on elsewhere, without waiting for the lease to run out, and stays in
// the trace of the request that asked for it.
func TestStopHandsOver(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		traces := testdrive.StartCollector(t)
		env := tracedEnvironment(t, s, traces)
		first := startPlatform(t, s, env)
		i := first.ownInstance(t, "dedicated-small")
		release := first.holdLaunches(t)
		operation := i.begin(t)
		first.awaitDescription(t, i, operation)
		second := startPlatform(t, s, env)
		tasks := openTasks(t, env)
		last, _ := tasks.latest(t, i.id, "")

		stopped := time.Now()
		first.Signal(t, syscall.SIGTERM)
		tasks.awaitTakeover(t, i.id, "", last, takeoverTime)
		t.Logf("the task was handed over in %v", time.Since(stopped))
		tasks.expectHandedOver(t, i.id)
		expectStopped(t, first, stopped)
		release()
		i = i.via(second)
		i.await(t, operation)
		request := spanOf(t, traces.Spans(), "PUT /v2/service_instances/{instance_id}")
		for epoch := range 2 {
			expectParent(t, spanOf(t, awaitTask(t, traces, "provision", epoch+1), "task provision"), request)
		}
		i.remove(t)
		expectNoProcess(t, env["LAUNCHER_DIR"])
	})
}

// expectHandedOver fails the test unless the worker that an instance's task had before gave its lease back: where one
// runs out, whoever takes the task over counts that as an attempt.
func (ts tasks) expectHandedOver(t *testing.T, instanceID string) {
	t.Helper()
	var attempt int
	if err := ts.pool.QueryRow(t.Context(), "SELECT attempt FROM task WHERE instance_id = $1", instanceID).
		Scan(&attempt); err != nil {
		t.Fatal(err)
	}
	if attempt != 0 {
		t.Errorf("the task was not handed over: %d leases on it ran out", attempt)
	}
}

// awaitDescription waits until a worker has begun the operation.
func (p platform) awaitDescription(t *testing.T, i instance, operation string) {
	t.Helper()
	testdrive.Eventually(t, testdrive.Patience, "the operation begins", func() bool {
		return i.via(p).poll(t, "?operation="+operation).Expect(t, 200).String("description") != ""
	})
}

// holdLaunches keeps launches from going on once they have begun, as another broker does that chooses a port just now.
func (p platform) holdLaunches(t *testing.T) (release func()) {
	t.Helper()
	return testdrive.LockDir(t, filepath.Join(p.launcherDir, "instances"))
}

func TestStopLeavesDedicatedServers(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		first := startPlatform(t, s, env)
		i := first.makeOwn(t, "dedicated-small")
		b, c := i.bound(t, nil)
		db := c.open(t)
		before := testdrive.Mysqlds(t, env["LAUNCHER_DIR"])
		first.Signal(t, syscall.SIGTERM)
		expectStopped(t, first, time.Now())
		exec(t, db, "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (7)")

		i = i.via(startPlatform(t, s, env))
		b.instance = i
		if again := i.credentials(t, b.fetch(t).Expect(t, 200)); again != c {
			t.Error("the credentials are not those of before")
		}
		if after := testdrive.Mysqlds(t, env["LAUNCHER_DIR"]); len(after) != 1 || !slices.Equal(after, before) {
			t.Errorf("the servers that run: %v, before: %v", after, before)
		}
		expectAdopted(t, before[0], connect(t, c.fields(t)))
		if n := read[int](t, c.open(t), "SELECT n FROM kept"); n != 7 {
			t.Errorf("the row reads %d", n)
		}
		i.remove(t)
		expectNoProcess(t, env["LAUNCHER_DIR"])
	})
}

// expectAdopted fails the test unless the broker restarts the server after it was killed.
func expectAdopted(t *testing.T, pid int, db *sql.DB) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testdrive.Eventually(t, restartTime, "the server is started again", func() bool {
		return db.PingContext(t.Context()) == nil
	})
}
