package backups

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestCleanupKeepsData runs the cleanup of a provision, from a restored PostgreSQL, on an instance that is in use. The
// cleanup must not delete the data.
func TestCleanupKeepsData(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	p := testdrive.StartPlatform(t, s, env)
	tasks, o := testdrive.OpenTasks(t, env), p.Operator(env)
	for name, c := range map[string]struct {
		plan   string
		before func(i testdrive.Instance, c testdrive.Credentials)
		why    string // in the task's last error
	}{
		"a database with a table": {"shared-async", func(_ testdrive.Instance, c testdrive.Credentials) {
			testdrive.Exec(t, c.Open(t), "CREATE TABLE kept (n INT)")
		}, "not empty"},
		"a server that was handed out": {"dedicated-small", func(testdrive.Instance, testdrive.Credentials) {}, "reported ready"},
		"a server with another password": {"dedicated-small", func(i testdrive.Instance, _ testdrive.Credentials) {
			tasks.Exec(t, "CREATE TABLE earlier AS SELECT id, admin_password FROM instance")
			testdrive.RotateAdmin(t, env, i.ID).Expect(t, 0)
			tasks.Exec(t, "UPDATE instance i SET admin_password = b.admin_password FROM earlier b WHERE b.id = i.id")
			forgetHandedOut(t, env)
		}, "admin password"},
	} {
		t.Run(name, func(t *testing.T) {
			i := p.OwnInstance(t, c.plan)
			i.Await(t, i.BeginProvision(t))
			_, login := i.Bound(t, nil)
			c.before(i, login)
			tasks.Exec(t, "UPDATE task SET phase = 'cleanup' WHERE kind = 'provision' AND instance_id = $1", i.ID)
			task := tasks.RestoreBefore(t, i)
			i.AwaitFailure(t, task, "Do not delete it")
			assert.Contains(t, o.Run(t, 0, "tasks", task).Stdout, c.why, "the task is shown as")
			testdrive.ExpectLine(t, testdrive.RunDoctor(t, env).Expect(t, 1).Stdout, "kept", i.ID)
			login.Open(t)                          // its data is where it was
			if name == "a database with a table" { // an operator has it tried again, which makes a working instance
				o.Run(t, 0, "tasks", "retry", task)
				tasks.AwaitSuccess(t, i.ID, "")
				o.Refuse(t, `the state of the service instance is "ready"`, "tasks", "retry", task)
				_, again := i.Bound(t, nil)
				testdrive.Exec(t, again.Open(t), "INSERT INTO kept VALUES (1)")
			}

			// What the platform asks for is done, as ever.
			i.Remove(t)
			expectNoDatabase(t, p, login.Database)
			testdrive.CheckNothingLeft(t, env["LAUNCHER_DIR"])
		})
	}
}

// forgetHandedOut removes the launcher's records that its servers are in use.
func forgetHandedOut(t *testing.T, env map[string]string) {
	t.Helper()
	marks, err := filepath.Glob(filepath.Join(env["LAUNCHER_DIR"], "instances", "*", "kept"))
	require.True(t, err == nil && len(marks) == 1, "servers handed out: %q, %v", marks, err)
	require.NoError(t, os.Remove(marks[0]))
}

func expectNoDatabase(t *testing.T, p testdrive.Platform, name string) {
	t.Helper()
	left := testdrive.Names(t, p.Admin(t), "SELECT schema_name FROM information_schema.schemata WHERE schema_name = '"+name+
		"'")
	assert.Empty(t, left, "%q are left", left)
}
