package e2e

import (
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// clockTakeoverTime is takeoverTime, and how long it may take until a clock that was set back is noticed.
const clockTakeoverTime = takeoverTime + leaseTime/4 + time.Second

// Leases end by PostgreSQL's clock. When that clock jumps, no task stays with a dead broker or waits until the clock
// catches up, and none runs twice.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]struct {
		jump time.Duration
		run  func(clockwork, *testing.T)
	}{
		"back, worker dead":       {-time.Hour, clockwork.workerDead}, // a clock set forward only ends leases sooner
		"back, task postponed":    {-time.Hour, clockwork.taskPostponed},
		"back, task under way":    {-time.Hour, clockwork.taskUnderWay},
		"forward, task under way": {time.Hour, clockwork.taskUnderWay},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// What matters is PostgreSQL's clock, whatever flavour the servers are of.
			all := servers.Chosen(t, servers.AllMySQL(t))
			scenario.run(newClockwork(t, all[len(name)%len(all)], scenario.jump), t)
		})
	}
}

// clockwork is two brokers, and how far their PostgreSQL's clock jumps.
type clockwork struct {
	clock         testdrive.Clock
	jump          time.Duration
	env           map[string]string
	first, second platform
	tasks         tasks
}

func newClockwork(t *testing.T, s servers.MySQL, jump time.Duration) clockwork {
	t.Helper()
	private := testdrive.Private(t, s.Flavour)
	pg, clock := testdrive.StartPostgresWithClock(t)
	env := testdrive.Environment(t, private)
	env["DATABASE_URL"] = pg.URL
	c := clockwork{clock: clock, jump: jump, env: env, first: startPlatform(t, private, env),
		second: startPlatform(t, private, env), tasks: openTasks(t, env)}
	return c
}

// set jumps, and fails the test if PostgreSQL does not see it.
func (c clockwork) set(t *testing.T) {
	t.Helper()
	c.clock.Set(t, c.jump)
	var now time.Time
	if err := c.tasks.pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	if off := time.Until(now) - c.jump; off.Abs() > time.Minute {
		t.Fatalf("PostgreSQL's clock says %v", now)
	}
}

func (c clockwork) workerDead(t *testing.T) {
	admin := c.second.admin(t)
	i := c.first.ownInstance(t, "shared-small")
	release := stall(t, admin)
	c.first.Begin("PUT", i.path(), i.provisionBody(nil))
	awaitStatement(t, admin, "CREATE DATABASE")
	last, _ := c.tasks.latest(t, i.id, "")
	c.first.Kill(t)
	c.set(t)
	release()
	c.tasks.awaitTakeover(t, i.id, "", last, clockTakeoverTime)
	c.tasks.awaitSuccess(t, i.id, "")
	expectTenants(t, admin, 1, 0)
	i.via(c.second).deprovision(t, now).Expect(t, 200)
	expectTenants(t, admin, 0, 0)
}

func (c clockwork) taskPostponed(t *testing.T) {
	admin := c.second.admin(t)
	i := c.first.ownInstance(t, "shared-async")
	release := stall(t, admin)
	operation := i.begin(t)
	testdrive.Eventually(t, takeoverTime, "the task is postponed", func() bool {
		var postponed bool
		err := c.tasks.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM task WHERE instance_id = $1
			AND lease_owner IS NULL AND last_error <> '')`, i.id).Scan(&postponed)
		return err == nil && postponed
	})
	c.set(t)
	release()
	testdrive.Eventually(t, clockTakeoverTime, "the postponed task ends", func() bool {
		_, state := c.tasks.latest(t, i.id, "")
		return state == "succeeded"
	})
	i.await(t, operation)
	expectTenants(t, admin, 1, 0)
	i.via(c.second).remove(t)
	expectTenants(t, admin, 0, 0)
}

func (c clockwork) taskUnderWay(t *testing.T) {
	i := c.first.ownInstance(t, "dedicated-small")
	release := c.first.holdLaunches(t)
	operation := i.begin(t)
	c.first.awaitDescription(t, i, operation)
	c.set(t)
	began := time.Now()
	testdrive.Eventually(t, testdrive.Patience, "every lease has been renewed, or has run out", func() bool {
		return time.Since(began) > outlastTime
	})
	release()
	i.await(t, operation)
	if running := testdrive.Mysqlds(t, c.env["LAUNCHER_DIR"]); len(running) != 1 {
		t.Errorf("processes of one server: %v", running)
	}
	_, credentials := i.bound(t, nil)
	credentials.open(t)
	i.remove(t)
	expectNoProcess(t, c.env["LAUNCHER_DIR"])
}
