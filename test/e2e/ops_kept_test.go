package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestCleanupKeepsData runs the cleanup of a provision, from a restored PostgreSQL, on an instance that is in use. The
// cleanup must not delete the data.
func TestCleanupKeepsData(t *testing.T) {
	t.Parallel()
	fill := func(t *testing.T, c credentials) { exec(t, c.open(t), "CREATE TABLE kept (n INT)") }
	cases := map[string]struct {
		plan   string
		before func(t *testing.T, env map[string]string, i instance, c credentials)
		why    string // in the task's last error
	}{
		"a database with a table": {"shared-async", func(t *testing.T, _ map[string]string, _ instance, c credentials) {
			fill(t, c)
		}, "not empty"},
		"a server that was handed out": {"dedicated-small", func(*testing.T, map[string]string, instance, credentials) {},
			"reported ready"},
		// Without the launcher's mark, the data themselves keep the server.
		"a server with a table": {"dedicated-small", func(t *testing.T, env map[string]string, i instance, c credentials) {
			fill(t, c)
			forgetHandedOut(t, env)
		}, "not empty"},
		"a server with another password": {"dedicated-small",
			func(t *testing.T, env map[string]string, i instance, _ credentials) {
				old := openTasks(t, env)
				old.exec(t, "CREATE TABLE earlier AS SELECT id, admin_password FROM instance")
				rotateAdmin(t, env, i.id).Expect(t, 0)
				old.exec(t, "UPDATE instance i SET admin_password = b.admin_password FROM earlier b WHERE b.id = i.id")
				forgetHandedOut(t, env)
			}, "admin password"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
				env := testdrive.Environment(t, s)
				p := startPlatform(t, s, env)
				i := p.ownInstance(t, c.plan)
				i.await(t, i.begin(t))
				_, login := i.bound(t, nil)
				c.before(t, env, i, login)

				tasks := openTasks(t, env)
				tasks.exec(t, "UPDATE task SET phase = 'cleanup' WHERE kind = 'provision'")
				task := tasks.restoreBefore(t, i)
				state, shown := i.AwaitOperation(t, i.id, task)
				if state != "failed" || !strings.Contains(strings.Join(shown, " "), "Do not delete it") {
					t.Errorf("it %s: %q", state, shown)
				}
				p.AwaitLog(t, `"level":"ERROR"`)
				p.AwaitLog(t, "what it was to undo is kept")
				o := p.operator(env)
				if out := o.run(t, 0, "tasks", task).Stdout; !strings.Contains(out, c.why) {
					t.Errorf("the task is shown as %s", out)
				}
				expectLine(t, runDoctor(t, env).Expect(t, 1).Stdout, "kept", i.id)
				login.open(t) // its data are where they were

				// What the platform asks for is done, as ever.
				i.remove(t)
				expectNoDatabase(t, p, login.Database)
				checkNothingLeft(t, env["LAUNCHER_DIR"])
			})
		})
	}
}

// forgetHandedOut removes the launcher's records that its servers are in use.
func forgetHandedOut(t *testing.T, env map[string]string) {
	t.Helper()
	marks, err := filepath.Glob(filepath.Join(env["LAUNCHER_DIR"], "instances", "*", "kept"))
	if err != nil || len(marks) != 1 {
		t.Fatalf("servers handed out: %q, %v", marks, err)
	}
	if err := os.Remove(marks[0]); err != nil {
		t.Fatal(err)
	}
}

func expectNoDatabase(t *testing.T, p platform, name string) {
	t.Helper()
	if left := names(t, p.admin(t), "SELECT schema_name FROM information_schema.schemata WHERE schema_name = '"+name+
		"'"); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// TestKeptProvisionIsTriedAgain has an operator retry a provision that kept data, which makes a working instance.
func TestKeptProvisionIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	p := startPlatform(t, s, env)
	i := p.provisioned(t, "shared-small", nil)
	_, c := i.bound(t, nil)
	exec(t, c.open(t), "CREATE TABLE kept (n INT)")
	tasks := openTasks(t, env)
	tasks.exec(t, "UPDATE task SET phase = 'cleanup' WHERE kind = 'provision'")
	task := tasks.restoreBefore(t, i)
	testdrive.Eventually(t, testdrive.Patience, "the cleanup ends", func() bool {
		_, state := tasks.latest(t, i.id, "")
		return state == "failed"
	})
	o := p.operator(env)
	o.run(t, 0, "tasks", "retry", task)
	tasks.awaitSuccess(t, i.id, "")
	o.refuse(t, `the state of the service instance is "ready"`, "tasks", "retry", task)
	_, again := i.bound(t, nil)
	exec(t, again.open(t), "INSERT INTO kept VALUES (1)")
}
