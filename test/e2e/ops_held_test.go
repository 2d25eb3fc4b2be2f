package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// forget makes PostgreSQL as old as one that was restored from a backup of its files: it deletes all tasks after the
// number last.
func (ts tasks) forget(t *testing.T, last int64) {
	t.Helper()
	if _, err := ts.pool.Exec(t.Context(), "WITH gone AS (DELETE FROM task WHERE id > $1) SELECT setval('task_id_seq', $1)",
		last); err != nil {
		t.Fatal(err)
	}
}

func (ts tasks) last(t *testing.T) (id int64) {
	t.Helper()
	if err := ts.pool.QueryRow(t.Context(), "SELECT last_value FROM task_id_seq").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// stop ends a broker as a platform does.
func stop(t *testing.T, p platform) {
	t.Helper()
	p.Signal(t, syscall.SIGTERM)
	if status := p.Wait(t); status != 0 {
		t.Fatalf("exit status %d", status)
	}
}

// expectHeld checks everything that a broker reports about a hold.
func expectHeld(t *testing.T, p platform, reason string) {
	t.Helper()
	r := p.Do(t, http.MethodGet, "/readyz", nil).Expect(t, http.StatusOK)
	held, _ := r.Body["held"].(map[string]any)
	why, _ := held["reason"].(string)
	todo, _ := held["to_do"].(string)
	if r.String("status") != "held" || !strings.Contains(why, reason) || !strings.Contains(todo, "mysql-broker recover") {
		t.Errorf("/readyz says %s", r.Raw)
	}
	expectFigures(t, p, map[string]string{"mysql_broker_held": "1"})
}

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
		openTasks(t, env).forget(t, last)
	}},
}

// While PostgreSQL is older than the servers, no broker removes or changes anything.
func TestHeld(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		for name, way := range restorations {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				env := testdrive.Environment(t, s)
				p := startPlatform(t, s, env)
				admin := p.admin(t)
				kept := p.makeOwn(t, "shared-small")
				b, c := kept.bound(t, nil)
				ts := openTasks(t, env)
				dump, last := testdrive.DumpPostgres(t, env["DATABASE_URL"]), ts.last(t)
				late := p.makeOwn(t, "shared-small")
				_, lateC := late.bound(t, nil)
				stop(t, p)
				way.restore(t, env, dump, last)
				// What was in progress then: a worker that does it would drop the database.
				ts.exec(t, `INSERT INTO task (instance_id, kind, plan_id) SELECT id, 'deprovision', plan_id FROM instance
					WHERE database_name = '`+c.Database+`'`)

				p = startPlatform(t, s, env)
				expectHeld(t, p, way.reason)
				p.AwaitLog(t, "mysql-broker recover")
				expectRefusal := func(r testdrive.Response) {
					t.Helper()
					if r.Status != http.StatusServiceUnavailable || !strings.Contains(r.String("description"), "restored from a backup") {
						t.Errorf("status %d: %s", r.Status, r.Raw)
					}
				}
				kept = kept.via(p)
				expectRefusal(p.ownInstance(t, "shared-small").provision(t, now, nil))
				expectRefusal(p.ownInstance(t, "dedicated-small").provision(t, later, nil))
				expectRefusal(kept.poll(t, "?operation=task_1000000"))
				if name == "dump" { // what is not known need not be gone
					for _, r := range []testdrive.Response{late.via(p).fetch(t), late.via(p).deprovision(t, now),
						late.via(p).newBinding().bind(t, nil)} {
						expectRefusal(r)
					}
				}
				if epoch, state := ts.latest(t, kept.id, ""); epoch != 0 || state != "in progress" {
					t.Errorf("a worker has taken the deletion of the past: epoch %d, %s", epoch, state)
				}
				ts.exec(t, "UPDATE task SET finished_at = now(), state = 'failed' WHERE state = 'in progress'")
				kept.fetch(t).Expect(t, http.StatusOK)
				_, newer := kept.bound(t, nil)
				newer.open(t)
				second := startPlatform(t, s, env)
				expectHeld(t, second, way.reason)
				for _, at := range []platform{p, second} {
					expectRefusal(kept.via(at).deprovision(t, now))
					expectRefusal(kept.via(at).updatePlan(t, now, "shared-large"))
					other := b
					other.instance = kept.via(at)
					expectRefusal(other.unbind(t))
				}
				c.open(t)
				lateC.open(t)
				if ts.last(t) <= last+1_000_000 {
					t.Errorf("the next task follows after %d", ts.last(t))
				}
				repaired := runDoctor(t, env, "--repair")
				if strings.Contains(repaired.Stdout, "dropped") {
					t.Errorf("the doctor repairs: %s", repaired.Stdout)
				}
				exec(t, admin, "DROP DATABASE `"+c.Database+"`", "DROP DATABASE `"+lateC.Database+"`", "DROP USER "+c.Username,
					"DROP USER "+lateC.Username, "DROP USER "+newer.Username)
			})
		}
	})
}

// If a shared server is unreachable when the broker starts, the hold is detected before the broker changes anything on
// it.
func TestHeldByServerThatComesLater(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		proxy := testdrive.NewProxy(t, s.Address())
		direct := s
		s.Port = proxy.Port()
		env := testdrive.Environment(t, s)
		delete(env, "LAUNCHER") // whose directory would tell at once
		p := startPlatform(t, s, env)
		i := p.makeOwn(t, "shared-async")
		_, c := i.bound(t, nil)
		last := openTasks(t, env).last(t) - 1
		stop(t, p)
		openTasks(t, env).forget(t, last)
		proxy.Refuse(true)

		p = startPlatform(t, s, env)
		p.AwaitLog(t, "nothing is done there until that works")
		expectFigures(t, p, map[string]string{"mysql_broker_held": "0"})
		i.via(p).deprovision(t, later).Expect(t, http.StatusAccepted)
		proxy.Refuse(false)
		testdrive.Eventually(t, testdrive.Patience, "PostgreSQL is held", func() bool { return p.Scrape(t)["mysql_broker_held"] == "1" })
		expectHeld(t, p, "has a record of task_")
		c.open(t)
		if _, state := openTasks(t, env).latest(t, i.id, ""); state != "in progress" {
			t.Errorf("the deletion has %s", state)
		}
		p.server = direct
		exec(t, p.admin(t), "DROP DATABASE `"+c.Database+"`", "DROP USER "+c.Username)
	})
}
