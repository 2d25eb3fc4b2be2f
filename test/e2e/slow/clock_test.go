package slow

import (
	"testing"
	"time"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// clockTakeoverTime is takeoverTime, and how long it may take until a clock that was set back is noticed.
const clockTakeoverTime = testdrive.TakeoverTime + testdrive.LeaseTime/4 + time.Second

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
	first, second testdrive.Platform
	tasks         testdrive.Tasks
}

func newClockwork(t *testing.T, s servers.MySQL, jump time.Duration) clockwork {
	t.Helper()
	private := testdrive.Private(t, s.Flavour)
	pg, clock := testdrive.StartPostgresWithClock(t)
	env := testdrive.Environment(t, private)
	env["DATABASE_URL"] = pg.URL
	c := clockwork{clock: clock, jump: jump, env: env, first: testdrive.StartPlatform(t, private, env),
		second: testdrive.StartPlatform(t, private, env), tasks: testdrive.OpenTasks(t, env)}
	return c
}

// set jumps, and fails the test if PostgreSQL does not see it.
func (c clockwork) set(t *testing.T) {
	t.Helper()
	c.clock.Set(t, c.jump)
	var now time.Time
	if err := c.tasks.Pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	if off := time.Until(now) - c.jump; off.Abs() > time.Minute {
		t.Fatalf("PostgreSQL's clock says %v", now)
	}
}

func (c clockwork) workerDead(t *testing.T) {
	admin := c.second.Admin(t)
	i := c.first.OwnInstance(t, "shared-small")
	release := testdrive.Stall(t, admin)
	c.first.Begin("PUT", i.Path(), i.ProvisionBody(nil))
	testdrive.AwaitStatement(t, admin, "CREATE DATABASE")
	last, _ := c.tasks.Latest(t, i.ID, "")
	c.first.Kill(t)
	c.set(t)
	release()
	c.tasks.AwaitTakeover(t, i.ID, "", last, clockTakeoverTime)
	c.tasks.AwaitSuccess(t, i.ID, "")
	testdrive.ExpectTenants(t, admin, 1, 0)
	i.Via(c.second).Deprovision(t, testdrive.Sync).Expect(t, 200)
	testdrive.ExpectTenants(t, admin, 0, 0)
}

func (c clockwork) taskPostponed(t *testing.T) {
	admin := c.second.Admin(t)
	i := c.first.OwnInstance(t, "shared-async")
	release := testdrive.Stall(t, admin)
	operation := i.BeginProvision(t)
	testdrive.Eventually(t, testdrive.TakeoverTime, "the task is postponed", func() bool {
		var postponed bool
		err := c.tasks.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM task WHERE instance_id = $1
			AND lease_owner IS NULL AND last_error <> '')`, i.ID).Scan(&postponed)
		return err == nil && postponed
	})
	c.set(t)
	release()
	testdrive.Eventually(t, clockTakeoverTime, "the postponed task ends", func() bool {
		_, state := c.tasks.Latest(t, i.ID, "")
		return state == "succeeded"
	})
	i.Await(t, operation)
	testdrive.ExpectTenants(t, admin, 1, 0)
	i.Via(c.second).Remove(t)
	testdrive.ExpectTenants(t, admin, 0, 0)
}

func (c clockwork) taskUnderWay(t *testing.T) {
	i := c.first.OwnInstance(t, "dedicated-small")
	release := c.first.HoldLaunches(t)
	operation := i.BeginProvision(t)
	c.first.AwaitDescription(t, i, operation)
	c.set(t)
	began := time.Now()
	testdrive.Eventually(t, limits.Stuck, "every lease has been renewed, or has run out", func() bool {
		return time.Since(began) > testdrive.OutlastTime
	})
	release()
	i.Await(t, operation)
	if running := testdrive.Mysqlds(t, c.env["LAUNCHER_DIR"]); len(running) != 1 {
		t.Errorf("processes of one server: %v", running)
	}
	_, credentials := i.Bound(t, nil)
	credentials.Open(t)
	i.Remove(t)
	testdrive.ExpectNoProcess(t, c.env["LAUNCHER_DIR"])
}
