package operators

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// restorations are the ways in which PostgreSQL becomes older than the servers, and the reason that the broker reports
// for each.
var restorations = map[string]struct {
	reason  string
	restore func(t *testing.T, env map[string]string, dump string, last int64)
}{
	"dump": {"loaded from a dump", func(t *testing.T, env map[string]string, dump string, _ int64) {
		testdrive.RestorePostgres(t, env["DATABASE_URL"], dump)
	}},
	"files": {"has a record of task_", func(t *testing.T, env map[string]string, _ string, last int64) {
		testdrive.OpenTasks(t, env).Forget(t, last)
	}},
}

// While PostgreSQL is older than the servers, no broker removes or changes anything.
func TestHeld(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	for name, way := range restorations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := testdrive.Environment(t, s)
			p := testdrive.StartPlatform(t, s, env)
			admin := p.Admin(t)
			kept := p.MakeOwn(t, "shared-small")
			b, c := kept.Bound(t, nil)
			ts := testdrive.OpenTasks(t, env)
			dump, last := testdrive.DumpPostgres(t, env["DATABASE_URL"]), ts.Last(t)
			late := p.MakeOwn(t, "shared-small")
			_, lateC := late.Bound(t, nil)
			testdrive.StopBroker(t, p)
			way.restore(t, env, dump, last)
			// What was in progress then: a worker that does it would drop the database.
			ts.Exec(t, `INSERT INTO task (instance_id, kind, plan_id) SELECT id, 'deprovision', plan_id FROM instance
				WHERE database_name = '`+c.Database+`'`)

			p = testdrive.StartPlatform(t, s, env)
			testdrive.ExpectHeld(t, p, way.reason)
			p.AwaitLog(t, "mysql-broker recover")
			expectRefusal := func(r testdrive.Response) {
				t.Helper()
				if r.Status != http.StatusServiceUnavailable || !strings.Contains(r.String("description"), "restored from a backup") {
					t.Errorf("status %d: %s", r.Status, r.Raw)
				}
			}
			kept = kept.Via(p)
			expectRefusal(p.OwnInstance(t, "shared-small").Provision(t, testdrive.Sync, nil))
			expectRefusal(p.OwnInstance(t, "dedicated-small").Provision(t, testdrive.Async, nil))
			expectRefusal(kept.Poll(t, "?operation=task_1000000"))
			if name == "dump" { // what is not known need not be gone
				for _, r := range []testdrive.Response{late.Via(p).Fetch(t), late.Via(p).Deprovision(t, testdrive.Sync),
					late.Via(p).NewBinding().Bind(t, nil)} {
					expectRefusal(r)
				}
			}
			if epoch, state := ts.Latest(t, kept.ID, ""); epoch != 0 || state != "in progress" {
				t.Errorf("a worker has taken the deletion of the past: epoch %d, %s", epoch, state)
			}
			ts.Exec(t, "UPDATE task SET finished_at = now(), state = 'failed' WHERE state = 'in progress'")
			kept.Fetch(t).Expect(t, http.StatusOK)
			_, newer := kept.Bound(t, nil)
			newer.Open(t)
			second := testdrive.StartPlatform(t, s, env)
			testdrive.ExpectHeld(t, second, way.reason)
			for _, at := range []testdrive.Platform{p, second} {
				expectRefusal(kept.Via(at).Deprovision(t, testdrive.Sync))
				expectRefusal(kept.Via(at).UpdatePlan(t, testdrive.Sync, "shared-large"))
				other := b
				other.Instance = kept.Via(at)
				expectRefusal(other.Unbind(t))
			}
			c.Open(t)
			lateC.Open(t)
			if ts.Last(t) <= last+1_000_000 {
				t.Errorf("the next task follows after %d", ts.Last(t))
			}
			repaired := testdrive.RunDoctor(t, env, "--repair")
			if strings.Contains(repaired.Stdout, "dropped") {
				t.Errorf("the doctor repairs: %s", repaired.Stdout)
			}
			testdrive.Exec(t, admin, "DROP DATABASE `"+c.Database+"`", "DROP DATABASE `"+lateC.Database+"`", "DROP USER "+c.Username,
				"DROP USER "+lateC.Username, "DROP USER "+newer.Username)
		})
	}
}

// If a shared server is unreachable when the broker starts, the hold is detected before the broker changes anything on
// it.
func TestHeldByServerThatComesLater(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	proxy := testdrive.NewProxy(t, s.Address())
	direct := s
	s.Port = proxy.Port()
	env := testdrive.Environment(t, s)
	delete(env, "LAUNCHER") // whose directory would tell at once
	p := testdrive.StartPlatform(t, s, env)
	i := p.MakeOwn(t, "shared-async")
	_, c := i.Bound(t, nil)
	last := testdrive.OpenTasks(t, env).Last(t) - 1
	testdrive.StopBroker(t, p)
	testdrive.OpenTasks(t, env).Forget(t, last)
	proxy.Refuse(true)

	p = testdrive.StartPlatform(t, s, env)
	p.AwaitLog(t, "nothing is done there until that works")
	testdrive.ExpectFigures(t, p, map[string]string{"mysql_broker_held": "0"})
	i.Via(p).Deprovision(t, testdrive.Async).Expect(t, http.StatusAccepted)
	proxy.Refuse(false)
	testdrive.Eventually(t, limits.Stuck, "PostgreSQL is held", func() bool { return p.Scrape(t)["mysql_broker_held"] == "1" })
	testdrive.ExpectHeld(t, p, "has a record of task_")
	c.Open(t)
	if _, state := testdrive.OpenTasks(t, env).Latest(t, i.ID, ""); state != "in progress" {
		t.Errorf("the deletion has %s", state)
	}
	p.Server = direct
	testdrive.Exec(t, p.Admin(t), "DROP DATABASE `"+c.Database+"`", "DROP USER "+c.Username)
}
