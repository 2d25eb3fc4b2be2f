package e2e

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// During an upgrade, brokers of the previous release and of this one work on the same state: each finishes what the
// other began, and the previous one can be started again if the upgrade is taken back.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		env["DATABASE_URL"] = servers.EmptyPostgres(t)
		old := startPrevious(t, private, env)
		admin := old.admin(t)
		before := old.makeOwn(t, "shared-small")
		bindingBefore, credentialsBefore := before.bound(t, nil)
		dedicated := old.makeOwn(t, "dedicated-small")

		current := startPlatform(t, private, env)
		bindingBefore.instance = before.via(current)
		c := before.credentials(t, bindingBefore.fetch(t).Expect(t, http.StatusOK))
		if c.fields(t).FormatDSN() != credentialsBefore.fields(t).FormatDSN() || c.CACertificate != credentialsBefore.CACertificate {
			t.Error("the new release reads other credentials")
		}
		c.open(t)
		bindingBefore.bind(t, asksNothing).Expect(t, http.StatusOK)
		_, c = dedicated.via(current).bound(t, nil)
		c.open(t)

		// What one release makes, the other one uses and removes.
		for _, pair := range [][2]platform{{old, current}, {current, old}} {
			i := pair[0].makeOwn(t, "shared-small")
			b, c := i.via(pair[1]).bound(t, nil)
			c.open(t)
			b.instance = i
			b.unbind(t).Expect(t, http.StatusOK)
			i.updatePlan(t, now, "shared-large").Expect(t, http.StatusOK)
			expectEmpty(t, i.via(pair[1]).deprovision(t, now), http.StatusOK)
		}

		// What one release dies over, the other one takes over.
		tasks := openTasks(t, env)
		current = takeOver(t, tasks, current, old, func() platform { return startPlatform(t, private, env) })
		old = takeOver(t, tasks, old, current, func() platform { return startPrevious(t, private, env) })

		// What the old release makes is on record with the new one: the doctor knows whose it is.
		i := old.makeOwn(t, "shared-small")
		i.bound(t, nil)
		if out := testdrive.Run(t, env, "doctor").Expect(t, 0); !strings.HasPrefix(out.Stdout, "All is well.") {
			t.Errorf("the doctor says: %s", out.Stdout)
		}

		current.Kill(t) // the upgrade is taken back
		expectEmpty(t, i.deprovision(t, now), http.StatusOK)
		dedicated.via(old).remove(t)
		expectEmpty(t, before.via(old).deprovision(t, now), http.StatusOK)
		expectTenants(t, admin, 0, 0)
		expectNoProcess(t, env["LAUNCHER_DIR"])
	})
}

func startPrevious(t *testing.T, server servers.MySQL, env map[string]string) platform {
	t.Helper()
	return startPlatformBy(t, testdrive.StartPrevious, server, env)
}

// takeOver kills a broker in the middle of a provision, which the other one must finish, and starts it again.
func takeOver(t *testing.T, tasks tasks, dying, other platform, restart func() platform) platform {
	t.Helper()
	admin := other.admin(t)
	i := dying.ownInstance(t, "shared-small")
	release := stall(t, admin)
	answers := dying.Begin("PUT", i.path(), i.provisionBody(nil))
	awaitStatement(t, admin, "CREATE DATABASE")
	last, _ := tasks.latest(t, i.id, "")
	dying.Kill(t)
	testdrive.Receive(t, answers, "the end of the request")
	testdrive.ExpireLeases(t, tasks.pool)
	tasks.awaitTakeover(t, i.id, "", last, takeoverTime)
	release()
	tasks.awaitSuccess(t, i.id, "")
	expectEmpty(t, i.via(other).deprovision(t, now), http.StatusOK)
	return restart()
}
