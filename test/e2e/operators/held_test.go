package operators

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// While PostgreSQL is older than the servers, no broker removes or changes anything.
func TestHeld(t *testing.T) {
	t.Parallel()
	const reason = "loaded from a dump"
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	p := testdrive.StartPlatform(t, s, env)
	kept := p.MakeOwn(t, "shared-small")
	b, c := kept.Bound(t, nil)
	ts := testdrive.OpenTasks(t, env)
	dump, last := testdrive.DumpPostgres(t, env["DATABASE_URL"]), ts.Last(t)
	late := p.MakeOwn(t, "shared-small")
	_, lateC := late.Bound(t, nil)
	testdrive.StopBroker(t, p)
	testdrive.RestorePostgres(t, env["DATABASE_URL"], dump)
	// What was in progress then: a worker that does it would drop the database.
	ts.Exec(t, `INSERT INTO task (instance_id, kind, plan_id) SELECT id, 'deprovision', plan_id FROM instance
		WHERE database_name = '`+c.Database+`'`)

	p = testdrive.StartPlatform(t, s, env)
	testdrive.ExpectHeld(t, p, reason)
	p.AwaitLog(t, "mysql-broker recover")
	expectRefusals := func(all ...testdrive.Response) {
		t.Helper()
		for _, r := range all {
			testdrive.ExpectRefusal(t, r, http.StatusServiceUnavailable, "restored from a backup")
		}
	}
	kept, late = kept.Via(p), late.Via(p)
	expectRefusals(p.OwnInstance(t, "shared-small").Provision(t, testdrive.Sync, nil),
		p.OwnInstance(t, "dedicated-small").Provision(t, testdrive.Async, nil), kept.Poll(t, "?operation=task_1000000"),
		late.Fetch(t), late.Deprovision(t, testdrive.Sync), late.NewBinding().Bind(t, nil)) // what is not known need not be gone
	if epoch, state := ts.Latest(t, kept.ID, ""); epoch != 0 || state != "in progress" {
		t.Errorf("a worker has taken the deletion of the past: epoch %d, %s", epoch, state)
	}
	ts.Exec(t, "UPDATE task SET finished_at = now(), state = 'failed' WHERE state = 'in progress'")
	kept.Fetch(t).Expect(t, http.StatusOK)
	_, newer := kept.Bound(t, nil)
	newer.Open(t)
	second := testdrive.StartPlatform(t, s, env)
	testdrive.ExpectHeld(t, second, reason)
	for _, at := range []testdrive.Platform{p, second} {
		b.Instance = kept.Via(at)
		expectRefusals(b.Deprovision(t, testdrive.Sync), b.UpdatePlan(t, testdrive.Sync, "shared-large"), b.Unbind(t))
	}
	c.Open(t)
	lateC.Open(t)
	if ts.Last(t) <= last+1_000_000 {
		t.Errorf("the next task follows after %d", ts.Last(t))
	}
	if repaired := testdrive.RunDoctor(t, env, "--repair"); strings.Contains(repaired.Stdout, "dropped") {
		t.Errorf("the doctor repairs: %s", repaired.Stdout)
	}
	testdrive.Exec(t, p.Admin(t), "DROP DATABASE `"+c.Database+"`", "DROP DATABASE `"+lateC.Database+"`", "DROP USER "+c.Username,
		"DROP USER "+lateC.Username, "DROP USER "+newer.Username)
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
