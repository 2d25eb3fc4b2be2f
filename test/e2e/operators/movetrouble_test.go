package operators

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestFaultMoveOfTroubledSource moves an instance while its server hangs and while it is killed, both during the copy and
// while applications may not write. The move goes on once the server is back, or puts everything back if it was
// cancelled.
func TestFaultMoveOfTroubledSource(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		server := testdrive.StartCrashable(t, s.Flavour)
		env := testdrive.Environment(t, server.MySQL)
		faults := testdrive.NewFaults(t, env)
		p := testdrive.StartPlatform(t, server.MySQL, env)
		d := p.Desk(t, env, faults)
		i := p.OwnInstance(t, "shared-small")
		i.Provision(t, testdrive.Sync, body{"context": testdrive.CloudFoundry}).Expect(t, http.StatusCreated)
		b, c := i.Bound(t, nil)
		testdrive.MakeObjectsAs(t, c)
		move := func() (operation string) {
			t.Helper()
			return i.UpdatePlan(t, testdrive.Async, "dedicated-small").Expect(t, http.StatusAccepted).String("operation")
		}
		serves := func() {
			t.Helper()
			testdrive.Eventually(t, limits.Stuck, "the server is back", func() bool { return d.AdminDB.PingContext(t.Context()) == nil })
		}

		// An operator cancels a move whose source was killed while applications could not write.
		reached, release := testdrive.HoldAt(t, faults, "update: freeze: done")
		operation := move()
		testdrive.Receive(t, reached, "nobody may write")
		let := server.Crash(t)
		release()
		d.Run(t, 0, "tasks", "cancel", operation)
		let()
		state, says := d.Ended(t, operation)
		assert.True(t, state == "failed" && strings.HasPrefix(says, testdrive.ByOperator),
			"the move that was cancelled %s: %s", state, says)
		serves()
		testdrive.Exec(t, c.Open(t), "CALL add_item()", "CREATE OR REPLACE VIEW names AS SELECT name FROM items")
		testdrive.ExpectTenants(t, d.AdminDB, 1, 1)
		testdrive.CheckNothingLeft(t, env["LAUNCHER_DIR"])

		// Another move meets all troubles.
		w := testdrive.StartWriter(t, c)
		reached, release = testdrive.HoldAt(t, faults, "update: copied")
		operation = move()
		for _, trouble := range []struct {
			begin func(testing.TB) (end func())
			next  string // the point of the next trouble
		}{{server.Freeze, "update: copied"}, {server.Crash, "update: freeze: done"}, {server.Freeze, "update: copied"},
			{server.Crash, ""}} {
			testdrive.Receive(t, reached, "the point of the next trouble")
			d.Tasks.Exec(t, "UPDATE task SET last_error = '' WHERE state = 'in progress'")
			end := trouble.begin(t)
			release()
			testdrive.Eventually(t, testdrive.TakeoverTime, "the broker tries again", func() (again bool) {
				d.Tasks.Scan(t, &again, "SELECT last_error <> '' FROM task WHERE state = 'in progress'")
				return again
			})
			reached, release = testdrive.HoldAt(t, faults, trouble.next)
			end()
		}
		i.Await(t, operation)
		written := w.Stop(t)
		moved := p.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK))
		serves()
		testdrive.ExpectWritten(t, written, moved)
		testdrive.ExpectSame(t, c, moved)
		testdrive.Exec(t, moved.Open(t), "CALL add_item()")
	})
}

// TestFaultMoveThawGivenUp moves an instance that is over its quota, cancels that while nobody may write, and gives up the
// step that gives the privileges back. The broker gives them back later: at first only those to delete, and once enough
// is deleted, those to write.
func TestFaultMoveThawGivenUp(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := testdrive.QuotaEnvironment(t, private)
	faults := testdrive.NewFaults(t, env)
	p := testdrive.StartPlatform(t, private, env)
	d := p.Desk(t, env, faults)
	i := p.OwnInstance(t, "shared-small")
	i.Provision(t, testdrive.Sync, body{"context": testdrive.CloudFoundry}).Expect(t, http.StatusCreated)
	_, c := i.Bound(t, nil)
	db := c.Open(t)
	testdrive.Overfill(t, db, testdrive.QuotaSmall)

	reached, release := testdrive.HoldAt(t, faults, "update: compare: begins")
	operation := i.UpdatePlan(t, testdrive.Async, "dedicated-small").Expect(t, http.StatusAccepted).String("operation")
	testdrive.Receive(t, reached, "nobody may write")
	assert.EqualValues(t, testdrive.Denied, testdrive.RefusalOf(t, db, "DELETE FROM filler"),
		"a DELETE during the move: error")
	d.Run(t, 0, "tasks", "cancel", operation)
	enough := d.Failing("thaw")
	release()
	d.Tasks.Await(t, operation, "cannot give the privileges back", "last_error LIKE '%step thaw%'")
	testdrive.Eventually(t, testdrive.TakeoverTime, "the step has had all its attempts", func() (over bool) {
		d.Tasks.Exec(t, "UPDATE task SET attempt = 1000, run_at = now() WHERE state = 'in progress' AND kind = 'update'")
		d.Tasks.Scan(t, &over, "SELECT count(*) = 0 FROM task WHERE state = 'in progress' AND kind = 'update'")
		return over
	})
	enough()
	testdrive.Eventually(t, testdrive.QuotaTime, "data can be deleted", func() bool { return testdrive.ErrorOf(t, db, "DELETE FROM filler") == nil })
	testdrive.AwaitAllowed(t, db)
}
