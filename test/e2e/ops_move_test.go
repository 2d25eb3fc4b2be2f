package e2e

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestMoveInterrupted kills brokers at each step of a move, and cancels moves. Nothing is lost and nothing is left.
func TestMoveInterrupted(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		faults := testdrive.NewFaults(t, env)
		p := startPlatform(t, private, env)
		d := desk{p, p.operator(env), p.admin(t), openTasks(t, env), faults}
		i := p.ownInstance(t, "shared-small")
		i.provision(t, now, body{"context": cloudFoundry}).Expect(t, http.StatusCreated)
		b, c := i.bound(t, nil)
		makeObjectsAs(t, c)
		db := c.open(t)

		// An operator cancels moves, one of them while nobody may write.
		for _, point := range []string{"update: copied", "update: compare: begins"} {
			reached, release := holdAt(t, faults, point)
			operation := i.updatePlan(t, later, "dedicated-small").Expect(t, http.StatusAccepted).String("operation")
			testdrive.Receive(t, reached, point)
			d.run(t, 0, "tasks", "cancel", operation)
			release()
			if state, says := d.ended(t, operation); state != "failed" || !strings.HasPrefix(says, byOperator) {
				t.Errorf("the move that was cancelled at %q %s: %s", point, state, says)
			}
			exec(t, db, "CALL add_item()", "CREATE OR REPLACE VIEW names AS SELECT name FROM items")
			expectTenants(t, d.admin, 1, 1)
			checkNothingLeft(t, env["LAUNCHER_DIR"])
		}

		// Changes that are neither committed nor rolled back keep the data from being moved.
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{"XA START 'x'", "INSERT INTO items (name) VALUES ('xa')", "XA END 'x'",
			"XA PREPARE 'x'"} {
			if _, err := conn.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
		state, shown := i.AwaitOperation(t, i.id, i.updatePlan(t, later, "dedicated-small").
			Expect(t, http.StatusAccepted).String("operation"))
		if says := shown[len(shown)-1]; state != "failed" || !strings.Contains(says, "XA") {
			t.Errorf("a move with a prepared XA transaction %s: %s", state, says)
		}
		if _, err := conn.ExecContext(t.Context(), "XA ROLLBACK 'x'"); err != nil {
			t.Error(err)
		}
		_ = conn.Close() // it goes back to the pool
		exec(t, db, "CALL add_item()")

		// A broker is killed at each of these points, and the last one finishes.
		w := startWriter(t, c)
		var operation string
		for n, point := range []string{"update: launch: done", "update: copied", "update: freeze: done",
			"update: compare: done", "update: hand over: done"} {
			faults.Decide(func(_ int, at string) testdrive.Word {
				if at == point {
					return testdrive.Die
				}
				return testdrive.GoOn
			})
			if n == 0 {
				operation = i.updatePlan(t, later, "dedicated-small").Expect(t, http.StatusAccepted).String("operation")
			} else {
				p = startPlatform(t, private, env)
			}
			p.Wait(t)
		}
		faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
		p = startPlatform(t, private, env)
		i.platform, b.platform, d.platform = p, p, p
		i.await(t, operation)
		written := w.stop(t)
		moved := p.credentials(t, b.fetch(t).Expect(t, http.StatusOK))
		expectWritten(t, written, moved)
		expectSame(t, c, moved)

		// The instance is deleted, with both places.
		i.remove(t)
		expectTenants(t, d.admin, 0, 0)
		checkNothingLeft(t, env["LAUNCHER_DIR"])
	})
}
