package e2e

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestMoveOfTroubledSource moves an instance while its server hangs and while it is killed, both during the copy and
// while applications may not write. The move goes on once the server is back, or puts everything back if it was
// cancelled.
func TestMoveOfTroubledSource(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		server := testdrive.StartCrashable(t, s.Flavour)
		env := testdrive.Environment(t, server.MySQL)
		faults := testdrive.NewFaults(t, env)
		p := startPlatform(t, server.MySQL, env)
		d := desk{p, p.operator(env), p.admin(t), openTasks(t, env), faults}
		i := p.ownInstance(t, "shared-small")
		i.provision(t, now, body{"context": cloudFoundry}).Expect(t, http.StatusCreated)
		b, c := i.bound(t, nil)
		makeObjectsAs(t, c)
		move := func() (operation string) {
			t.Helper()
			return i.updatePlan(t, later, "dedicated-small").Expect(t, http.StatusAccepted).String("operation")
		}
		serves := func() {
			t.Helper()
			testdrive.Eventually(t, testdrive.Patience, "the server is back", func() bool { return d.admin.PingContext(t.Context()) == nil })
		}

		// An operator cancels a move whose source was killed while applications could not write.
		reached, release := holdAt(t, faults, "update: freeze: done")
		operation := move()
		testdrive.Receive(t, reached, "nobody may write")
		let := server.Crash(t)
		release()
		d.run(t, 0, "tasks", "cancel", operation)
		let()
		if state, says := d.ended(t, operation); state != "failed" || !strings.HasPrefix(says, byOperator) {
			t.Errorf("the move that was cancelled %s: %s", state, says)
		}
		serves()
		exec(t, c.open(t), "CALL add_item()", "CREATE OR REPLACE VIEW names AS SELECT name FROM items")
		expectTenants(t, d.admin, 1, 1)
		checkNothingLeft(t, env["LAUNCHER_DIR"])

		// Another move meets all troubles.
		w := startWriter(t, c)
		reached, release = holdAt(t, faults, "update: copied")
		operation = move()
		for _, trouble := range []struct {
			begin func(testing.TB) (end func())
			next  string // the point of the next trouble
		}{{server.Freeze, "update: copied"}, {server.Crash, "update: freeze: done"}, {server.Freeze, "update: copied"},
			{server.Crash, ""}} {
			testdrive.Receive(t, reached, "the point of the next trouble")
			d.tasks.exec(t, "UPDATE task SET last_error = '' WHERE state = 'in progress'")
			end := trouble.begin(t)
			release()
			testdrive.Eventually(t, takeoverTime, "the broker tries again", func() (again bool) {
				d.tasks.scan(t, &again, "SELECT last_error <> '' FROM task WHERE state = 'in progress'")
				return again
			})
			reached, release = holdAt(t, faults, trouble.next)
			end()
		}
		i.await(t, operation)
		written := w.stop(t)
		moved := p.credentials(t, b.fetch(t).Expect(t, http.StatusOK))
		serves()
		expectWritten(t, written, moved)
		expectSame(t, c, moved)
		exec(t, moved.open(t), "CALL add_item()")
	})
}

// TestMoveThawGivenUp moves an instance that is over its quota, cancels that while nobody may write, and gives up the
// step that gives the privileges back. The broker gives them back later: at first only those to delete, and once enough
// is deleted, those to write.
func TestMoveThawGivenUp(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := quotaEnvironment(t, private)
		faults := testdrive.NewFaults(t, env)
		p := startPlatform(t, private, env)
		d := desk{p, p.operator(env), p.admin(t), openTasks(t, env), faults}
		i := p.ownInstance(t, "shared-small")
		i.provision(t, now, body{"context": cloudFoundry}).Expect(t, http.StatusCreated)
		_, c := i.bound(t, nil)
		db := c.open(t)
		overfill(t, db, quotaSmall)

		reached, release := holdAt(t, faults, "update: compare: begins")
		operation := i.updatePlan(t, later, "dedicated-small").Expect(t, http.StatusAccepted).String("operation")
		testdrive.Receive(t, reached, "nobody may write")
		if got := refusal(t, db, "DELETE FROM filler"); got != denied {
			t.Errorf("a DELETE during the move: error %d", got)
		}
		d.run(t, 0, "tasks", "cancel", operation)
		enough := d.failing("thaw")
		release()
		d.tasks.await(t, operation, "cannot give the privileges back", "last_error LIKE '%step thaw%'")
		testdrive.Eventually(t, takeoverTime, "the step has had all its attempts", func() (over bool) {
			d.tasks.exec(t, "UPDATE task SET attempt = 1000, run_at = now() WHERE state = 'in progress' AND kind = 'update'")
			d.tasks.scan(t, &over, "SELECT count(*) = 0 FROM task WHERE state = 'in progress' AND kind = 'update'")
			return over
		})
		enough()
		testdrive.Eventually(t, quotaTime, "data can be deleted", func() bool { return errorOf(t, db, "DELETE FROM filler") == nil })
		awaitAllowed(t, db)
	})
}
