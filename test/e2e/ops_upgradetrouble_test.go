package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// largeLikeSmall is the shipped catalog, but dedicated-large allows only more data, connections and bindings than
// dedicated-small.
func largeLikeSmall(t *testing.T) string {
	t.Helper()
	return editedCatalog(t, inPlan("dedicated-large", "memory_mb: 1024,", "memory_mb: 256,"))
}

// TestUpgradeTroubled changes the plan of an instance for which there is an upgrade, and begins upgrades that lack room,
// are cancelled, are claimed by a broker without the program, and whose instance is deleted.
func TestUpgradeTroubled(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		disk := testdrive.MountDisk(t, env["LAUNCHER_DIR"], diskMiB)
		present, err := mysqld.ReadBinary(env["LAUNCHER_MYSQLD"])
		if err != nil {
			t.Fatal(err)
		}
		next := servers.Later(t, present)
		env["CATALOG"] = largeLikeSmall(t)
		faults := testdrive.NewFaults(t, env)
		p := startPlatformBy(t, disk.Start, s, env)
		i, deleted := p.makeOwn(t, "dedicated-small"), p.makeOwn(t, "dedicated-small")
		_, c := i.bound(t, nil)
		db := c.open(t)
		exec(t, db, "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (7)")
		p.Kill(t)
		older := maps.Clone(env)
		env["LAUNCHER_MYSQLD"] = present.Path + "," + next.Path
		p = startPlatformBy(t, disk.Start, s, env)
		i.platform, deleted.platform = p, p
		pids := testdrive.Mysqlds(t, env["LAUNCHER_DIR"])
		undisturbed := func(what string) {
			t.Helper()
			i.expectVersion(t, p, env, present.Version)
			if now := testdrive.Mysqlds(t, env["LAUNCHER_DIR"]); !slices.Equal(now, pids) {
				t.Errorf("%s: the servers are the processes %v; they were %v", what, now, pids)
			}
		}

		// Platforms that want no upgrade send no maintenance_info.
		i.await(t, i.updatePlan(t, later, "dedicated-large").Expect(t, http.StatusAccepted).String("operation"))
		_, i.planID = testdrive.Plan(t, "dedicated-large")
		undisturbed("a change of limits")

		disk.Fill(t, startMiB)
		i.expectFailedUpgrade(t, i.upgrade(t, next.Version), "too little room on the disk")
		disk.Free(t)
		undisturbed("too little room")

		copied, release := holdAt(t, faults, "upgrade: copied")
		upgrading := i.upgrade(t, next.Version).Expect(t, http.StatusAccepted)
		testdrive.Receive(t, copied, "the data are copied")
		p.operator(env).run(t, 0, "tasks", "cancel", upgrading.String("operation"))
		release()
		i.expectFailedUpgrade(t, upgrading, "stays as it was")
		i.expectVersion(t, p, env, present.Version)
		if n := read[int](t, db, "SELECT n FROM kept"); n != 7 {
			t.Errorf("the row reads %d", n)
		}

		// A broker whose configuration is older leaves the upgrade to others.
		faults.Decide(dieAt("update: recorded", 1))
		p.Begin("PATCH", i.path()+later, body{"service_id": i.serviceID, "plan_id": i.planID,
			"maintenance_info": body{"version": next.Version}})
		p.Wait(t)
		faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
		ts := openTasks(t, env)
		testdrive.ExpireLeases(t, ts.pool)
		with := disk.Start(t, older)
		testdrive.Eventually(t, testdrive.Patience, "the older broker leaves the upgrade to others", func() bool {
			var recorded string
			ts.scan(t, &recorded, "SELECT description FROM task WHERE state = 'in progress'")
			return strings.Contains(recorded, "Waiting for a broker that offers ")
		})
		with.Kill(t)
		p = startPlatformBy(t, disk.Start, s, env)
		i.platform, deleted.platform = p, p
		ts.awaitSuccess(t, i.id, "")
		i.expectVersion(t, p, env, next.Version)

		copied, release = holdAt(t, faults, "upgrade: copied")
		upgrading = deleted.upgrade(t, next.Version).Expect(t, http.StatusAccepted)
		testdrive.Receive(t, copied, "the data are copied")
		deletion := deleted.deprovision(t, later).Expect(t, http.StatusAccepted).String("operation")
		release()
		deleted.await(t, deletion)
		deleted.expectFailedUpgrade(t, upgrading, "is being deleted")
		i.remove(t)
		expectEmptyDisk(t, disk)
		expectNoProcess(t, env["LAUNCHER_DIR"])
	})
}

// startMiB is free disk on which a server can be started again, but not copied.
const startMiB = 66

// expectFailedUpgrade fails the test unless an upgrade fails and users read a text.
func (i instance) expectFailedUpgrade(t *testing.T, accepted testdrive.Response, text string) {
	t.Helper()
	operation := accepted.Expect(t, http.StatusAccepted).String("operation")
	state, shown := i.AwaitOperation(t, i.id, operation)
	if says := shown[len(shown)-1]; state != "failed" || !strings.Contains(says, text) {
		t.Errorf("the upgrade %s: %q", state, says)
	} else {
		t.Logf("users read: %s", says)
	}
}
