package e2e

import (
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A broker that dies while a request waits leaves an instance of which the platform knows nothing. Another broker
// finishes it, so that the platform's DELETE (OSB API, "Orphan Mitigation") finds what there is to delete.
func TestCrashDuringSharedProvision(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		first, second := startPlatform(t, private, env), startPlatform(t, private, env)
		tasks, admin := openTasks(t, env), first.admin(t)
		i := first.ownInstance(t, "shared-small")

		release := stall(t, admin)
		answers := first.Begin("PUT", i.path(), i.provisionBody(nil))
		awaitStatement(t, admin, "CREATE DATABASE")
		last, _ := tasks.latest(t, i.id, "")
		first.Kill(t)
		if r, ok := <-answers; ok {
			t.Fatalf("the broker that was killed answered %d: %s", r.Status, r.Raw)
		}
		tasks.awaitTakeover(t, i.id, "", last, takeoverTime)
		release()
		tasks.awaitSuccess(t, i.id, "")
		expectTenants(t, admin, 1, 0)

		i = i.via(second)
		i.deprovision(t, now).Expect(t, 200)
		expectTenants(t, admin, 0, 0)
		i.fetch(t).Expect(t, 404)
	})
}

// A broker may die at any moment of a launch: the next one finds what it had started, or starts afresh.
func TestCrashDuringDedicatedProvision(t *testing.T) {
	t.Parallel()
	moments := []struct {
		name  string
		below string // in the launcher's directory; a process that works there tells that the moment has come
	}{
		{"while the first data directory is made", "/templates"},
		{"while the server starts", "/instances"},
	}
	for _, moment := range moments {
		t.Run(moment.name, func(t *testing.T) {
			t.Parallel()
			servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
				env := testdrive.Environment(t, s)
				first := startPlatform(t, s, env)
				i := first.ownInstance(t, "dedicated-small")
				operation := i.begin(t)
				testdrive.Eventually(t, time.Minute, "a process works below"+moment.below, func() bool {
					return len(testdrive.Processes(t, env["LAUNCHER_DIR"]+moment.below)) > 0
				})
				tasks := openTasks(t, env)
				last, _ := tasks.latest(t, i.id, "")
				first.Kill(t)

				killed := time.Now()
				i = i.via(startPlatform(t, s, env))
				tasks.awaitTakeover(t, i.id, "", last, takeoverTime-time.Since(killed))
				i.await(t, operation)
				_, c := i.bound(t, nil)
				c.open(t)
				if pids := testdrive.Mysqlds(t, env["LAUNCHER_DIR"]); len(pids) != 1 {
					t.Errorf("processes of one server: %v", pids)
				}
				i.remove(t)
				expectNoProcess(t, env["LAUNCHER_DIR"])
			})
		})
	}
}

func expectNoProcess(t *testing.T, dir string) {
	t.Helper()
	if left := testdrive.Processes(t, dir); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
}
