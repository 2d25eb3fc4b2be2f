package slow

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestUpgradeTroubled changes the plan of an instance for which there is an upgrade, and begins upgrades that lack room,
// are cancelled, are claimed by a broker without the program, and whose instance is deleted.
func TestUpgradeTroubled(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		disk := testdrive.MountDisk(t, env["LAUNCHER_DIR"], diskMiB)
		present, err := mysqld.ReadBinary(env["LAUNCHER_MYSQLD"])
		require.NoError(t, err)
		next := servers.Later(t, present)
		// dedicated-large allows only more data, connections and bindings than dedicated-small.
		env["CATALOG"] = testdrive.EditedCatalog(t, testdrive.InPlan("dedicated-large", "memory_mb: 1024,", "memory_mb: 256,"))
		faults := testdrive.NewFaults(t, env)
		p := testdrive.StartPlatformBy(t, disk.Start, s, env)
		i, deleted := p.MakeOwn(t, "dedicated-small"), p.MakeOwn(t, "dedicated-small")
		_, c := i.Bound(t, nil)
		db := c.Open(t)
		testdrive.Exec(t, db, "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (7)")
		p.Kill(t)
		older := maps.Clone(env)
		env["LAUNCHER_MYSQLD"] = present.Path + "," + next.Path
		p = testdrive.StartPlatformBy(t, disk.Start, s, env)
		i.Platform, deleted.Platform = p, p
		pids := testdrive.Mysqlds(t, env["LAUNCHER_DIR"])
		undisturbed := func(what string) {
			i.ExpectVersion(t, p, env, present.Version)
			now := testdrive.Mysqlds(t, env["LAUNCHER_DIR"])
			assert.True(t, slices.Equal(now, pids), "%s: the servers are the processes %v; they were %v", what, now, pids)
		}

		// Platforms that want no upgrade send no maintenance_info.
		i.Await(t, i.UpdatePlan(t, testdrive.Async, "dedicated-large").Operation(t))
		_, i.PlanID = testdrive.Plan(t, "dedicated-large")
		undisturbed("a change of limits")

		disk.Fill(t, startMiB)
		i.AwaitFailure(t, i.Upgrade(t, next.Version).Operation(t), "too little room on the disk")
		disk.Free(t)
		undisturbed("too little room")

		// An operator cancels an upgrade that has copied the data. The next upgrade succeeds.
		copied, release := testdrive.HoldAt(t, faults, "upgrade: copied")
		upgrading := i.Upgrade(t, next.Version).Operation(t)
		testdrive.Receive(t, copied, "the data is copied")
		p.Operator(env).Run(t, 0, "tasks", "cancel", upgrading)
		release()
		i.AwaitFailure(t, upgrading, testdrive.ByOperator+" The service instance stays as it was; update it again later.")
		i.ExpectVersion(t, p, env, present.Version)
		assert.Equal(t, 7, testdrive.Read[int](t, db, "SELECT n FROM kept"), "the row reads")

		// A broker whose configuration is older leaves the upgrade to others.
		faults.Decide(testdrive.DieAt("update: recorded", 1))
		p.Begin("PATCH", i.Path()+testdrive.Async, body{"service_id": i.ServiceID, "plan_id": i.PlanID,
			"maintenance_info": body{"version": next.Version}})
		p.Wait(t)
		faults.GoOn()
		ts := testdrive.OpenTasks(t, env)
		testdrive.ExpireLeases(t, ts.Pool)
		with := disk.Start(t, older)
		testdrive.Eventually(t, "the older broker leaves the upgrade to others", func() bool {
			var recorded string
			ts.Scan(t, &recorded, "SELECT description FROM task WHERE state = 'in progress'")
			return strings.Contains(recorded, "Waiting for a broker that offers ")
		})
		with.Kill(t)
		p = testdrive.StartPlatformBy(t, disk.Start, s, env)
		i.Platform, deleted.Platform = p, p
		ts.AwaitSuccess(t, i.ID)
		i.ExpectVersion(t, p, env, next.Version)
		assert.Equal(t, 7, testdrive.Read[int](t, db, "SELECT n FROM kept"), "the row reads")

		copied, release = testdrive.HoldAt(t, faults, "upgrade: copied")
		upgrading = deleted.Upgrade(t, next.Version).Operation(t)
		testdrive.Receive(t, copied, "the data is copied")
		deletion := deleted.Deprovision(t, testdrive.Async).Operation(t)
		release()
		deleted.Await(t, deletion)
		deleted.AwaitFailure(t, upgrading, "is being deleted")
		i.Remove(t)
		expectEmptyDisk(t, disk)
		testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
	})
}

// startMiB is free disk on which a server can be started again, but not copied.
const startMiB = 66
