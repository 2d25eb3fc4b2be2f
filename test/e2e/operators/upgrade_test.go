package operators

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// During an upgrade, brokers of the previous release and of this one work on the same state: each finishes what the
// other began, and the previous one can be started again if the upgrade is taken back.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	private, env := testdrive.PrivateEnvironment(t)
	env["DATABASE_URL"] = servers.EmptyPostgres(t)
	testdrive.Run(t, env, "catalog", "check", testdrive.PreviousCatalog(t)).Expect(t, 0)
	old := startPrevious(t, private, env)
	admin := old.Admin(t)
	before := old.MakeOwn(t, "shared-small")
	bindingBefore, credentialsBefore := before.Bound(t, nil)
	dedicated := old.MakeOwn(t, "dedicated-small")

	current := testdrive.StartPlatform(t, private, env)
	bindingBefore.Instance = before.Via(current)
	c := before.Credentials(t, bindingBefore.Fetch(t).Expect(t, http.StatusOK))
	assert.True(t, c.Fields(t).FormatDSN() == credentialsBefore.Fields(t).FormatDSN() &&
		c.CACertificate == credentialsBefore.CACertificate, "the new release reads other credentials")
	c.Open(t)
	bindingBefore.Bind(t, nil).Expect(t, http.StatusOK)
	_, c = dedicated.Via(current).Bound(t, nil)
	c.Open(t)

	// A server that operators drain gets nothing from the previous release. Its response does not matter.
	o := old.Operator(env)
	o.Run(t, 0, "drain", "shared-1")
	old.OwnInstance(t, "shared-small").Provision(t, testdrive.Sync, nil)
	got := o.IDs(t, "id", "instances", "--server", "shared-1")
	assert.True(t, len(got) == 1 && got[0] == before.ID, "on the drained server: %q", got)
	o.Run(t, 0, "drain", "--undo", "shared-1")

	// What one release makes, the other one uses and removes.
	for _, pair := range [][2]testdrive.Platform{{old, current}, {current, old}} {
		i := pair[0].MakeOwn(t, "shared-small")
		b, c := i.Via(pair[1]).Bound(t, nil)
		c.Open(t)
		b.Instance = i
		b.Unbind(t).Expect(t, http.StatusOK)
		i.UpdatePlan(t, testdrive.Sync, "shared-large").Expect(t, http.StatusOK)
		testdrive.ExpectEmpty(t, i.Via(pair[1]).Deprovision(t, testdrive.Sync), http.StatusOK)
	}

	// What one release dies over, the other one takes over.
	tasks := testdrive.OpenTasks(t, env)
	current = takeOver(t, tasks, current, old, func() testdrive.Platform { return testdrive.StartPlatform(t, private, env) })
	old = takeOver(t, tasks, old, current, func() testdrive.Platform { return startPrevious(t, private, env) })

	// What the old release makes is on record with the new one: the doctor knows whose it is.
	i := old.MakeOwn(t, "shared-small")
	i.Bound(t, nil)
	out := testdrive.Run(t, env, "doctor").Expect(t, 0)
	assert.True(t, strings.HasPrefix(out.Stdout, "All is well."), "the doctor says: %s", out.Stdout)

	current.Kill(t) // the upgrade is taken back
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
	dedicated.Via(old).Remove(t)
	testdrive.ExpectEmpty(t, before.Via(old).Deprovision(t, testdrive.Sync), http.StatusOK)
	testdrive.ExpectTenants(t, admin, 0, 0)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
}

func startPrevious(t *testing.T, server servers.MySQL, env map[string]string) testdrive.Platform {
	return testdrive.StartPlatformBy(t, testdrive.StartPrevious, server, env)
}

// takeOver kills a broker in the middle of a provision, which the other one must finish, and starts it again.
func takeOver(t *testing.T, tasks testdrive.Tasks, dying, other testdrive.Platform, restart func() testdrive.Platform) testdrive.Platform {
	admin := other.Admin(t)
	i := dying.OwnInstance(t, "shared-small")
	release := testdrive.Stall(t, admin)
	answers := dying.Begin("PUT", i.Path(), i.ProvisionBody(nil))
	testdrive.AwaitStatement(t, admin, "CREATE DATABASE")
	last, _ := tasks.Latest(t, i.ID)
	dying.Kill(t)
	testdrive.Receive(t, answers, "the end of the request")
	testdrive.ExpireLeases(t, tasks.Pool)
	tasks.AwaitTakeover(t, i.ID, last)
	release()
	tasks.AwaitSuccess(t, i.ID)
	testdrive.ExpectEmpty(t, i.Via(other).Deprovision(t, testdrive.Sync), http.StatusOK)
	return restart()
}

// TestServerUpgrade offers a later version to a broker with an instance, and upgrades that as `cf upgrade-service` does.
func TestServerUpgrade(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		p, env := testdrive.PlatformOn(t, s, "BACKUP_STORE", "file://"+t.TempDir())
		present, err := mysqld.ReadBinary(env["LAUNCHER_MYSQLD"])
		require.NoError(t, err)
		i := p.OwnInstance(t, "dedicated-small")
		i.Await(t, i.Provision(t, testdrive.Async, body{"maintenance_info": body{"version": present.Version}}).Operation(t))
		c := testdrive.MakeObjects(t, i)
		i.ExpectVersion(t, p, env, present.Version)
		p.Kill(t)

		next := servers.Later(t, present)
		env["LAUNCHER_MYSQLD"] = present.Path + "," + next.Path
		p = testdrive.StartPlatform(t, s, env)
		i.Platform = p
		i.ExpectVersion(t, p, env, present.Version) // nothing happens by itself
		testdrive.ExpectError(t, i.Upgrade(t, present.Version), "MaintenanceInfoConflict")
		assert.Contains(t, p.Operator(env).Run(t, 0, "servers", "--dedicated").Stdout, next.Version,
			"the list of servers shows no upgrade")
		w := testdrive.StartWriter(t, c, testdrive.ConnectionLost, testdrive.StatementInterrupted, testdrive.ConnectionKilled,
			testdrive.ShuttingDown)
		operation := i.Upgrade(t, next.Version).Operation(t)
		assert.Equal(t, operation, i.Upgrade(t, next.Version).Operation(t), "the repeated request started")
		shown := i.Await(t, operation)
		text := strings.Join(shown, "\n")
		assert.False(t, !strings.Contains(text, "Writing the backup") && !strings.Contains(text, "Upgrading"),
			"the platform reads %q", shown)
		testdrive.ExpectWritten(t, w.GoesOn(t), c)
		testdrive.ExpectClone(t, i)
		i.ExpectVersion(t, p, env, next.Version)
		var backups []struct{ Reason, State string }
		p.Operator(env).Read(t, &backups, "backups")
		assert.True(t, len(backups) == 1 && backups[0].Reason == "upgrade" && backups[0].State == "complete",
			"backups %+v", backups)
		testdrive.ExpectEmpty(t, i.Upgrade(t, next.Version), http.StatusOK)
		done := p.Operator(env).Audit(t, "--instance", i.ID, "--action", "update")
		assert.True(t, len(done) == 1 && done[0].Object == "upgrade to "+next.Version, "the audit has %+v", done)

		p.Kill(t)
		env["LAUNCHER_MYSQLD"] = next.Path + "," + present.Path
		env["CATALOG"] = testdrive.CatalogWith(t, env["CATALOG"], "dedicated-large", fmt.Sprintf("version: %q", present.Version))
		p = testdrive.StartPlatform(t, s, env)
		i.Platform = p
		testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Async, "dedicated-large"), "PlanChangeNotSupported", "cannot go back")
		// Other tests have databases on the shared server.
		out := testdrive.Run(t, env, "doctor").Stdout
		assert.False(t, strings.Contains(out, i.ID) || strings.Contains(out, "   dedicated "), "the doctor says: %s", out)
	})
}
