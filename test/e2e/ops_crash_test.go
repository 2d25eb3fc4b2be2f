package e2e

import (
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A broker may die while it creates the data directory that servers are copied from. The next broker waits for the
// orphaned initialisation to end, and starts over.
func TestCrashDuringTemplate(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		testdrive.OwnTemplates(t, env)
		first := startPlatform(t, s, env)
		i := first.ownInstance(t, "dedicated-small")
		operation := i.begin(t)
		testdrive.Eventually(t, testdrive.Patience, "a process makes a data directory", func() bool {
			return len(testdrive.Processes(t, env["LAUNCHER_DIR"]+"/templates")) > 0
		})
		tasks := openTasks(t, env)
		last, _ := tasks.latest(t, i.id, "")
		first.Kill(t)
		testdrive.ExpireLeases(t, tasks.pool)

		i = i.via(startPlatform(t, s, env))
		tasks.awaitTakeover(t, i.id, "", last, takeoverTime)
		i.await(t, operation)
		_, c := i.bound(t, nil)
		c.open(t)
		if pids := testdrive.Mysqlds(t, env["LAUNCHER_DIR"]); len(pids) != 1 {
			t.Errorf("processes of one server: %v", pids)
		}
		i.remove(t)
		expectNoProcess(t, env["LAUNCHER_DIR"])
	})
}

func expectNoProcess(t *testing.T, dir string) {
	t.Helper()
	if left := testdrive.Processes(t, dir); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
}
