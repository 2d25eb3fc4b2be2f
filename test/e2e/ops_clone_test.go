package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestCloneInterrupted interrupts copies in different ways, while rows are being copied.
func TestCloneInterrupted(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		faults := testdrive.NewFaults(t, env)
		p := startPlatform(t, private, env)
		d := desk{p, p.operator(env), p.admin(t), openTasks(t, env), faults}
		source := p.ownInstance(t, "shared-small")
		source.provision(t, now, body{"context": cloudFoundry}).Expect(t, http.StatusCreated)
		c := makeObjects(t, source)
		db := c.open(t)
		for n := range 12 { // workers are at some when the first is copied
			exec(t, db, fmt.Sprintf("CREATE TABLE t%d AS SELECT 1 AS id", n))
		}
		const copied = "provision: copied"

		// An operator cancels it.
		i := p.ownInstance(t, "shared-small")
		reached, release := holdAt(t, faults, copied)
		operation := i.clone(t, source.id, nil).Expect(t, http.StatusAccepted).String("operation")
		testdrive.Receive(t, reached, "rows are copied")
		d.run(t, 0, "tasks", "cancel", operation)
		release()
		if state, says := d.ended(t, operation); state != "failed" || !strings.HasPrefix(says, byOperator) {
			t.Errorf("the cancelled copy %s: %s", state, says)
		}
		i.remove(t)
		expectTenants(t, d.admin, 1, 1)

		// The platform deletes the copy.
		i = p.ownInstance(t, "shared-small")
		reached, release = holdAt(t, faults, copied)
		i.clone(t, source.id, nil).Expect(t, http.StatusAccepted)
		testdrive.Receive(t, reached, "rows are copied")
		deleted := i.Begin("DELETE", i.deletion(i.path(), now), nil)
		release()
		testdrive.Receive(t, deleted, "the copy is deleted").Expect(t, http.StatusOK)
		expectTenants(t, d.admin, 1, 1)

		// The broker is killed while it copies, and the next one when it has created everything. A third one finishes.
		i = p.ownInstance(t, "shared-small")
		dieAt := func(point string) {
			faults.Decide(func(_ int, at string) testdrive.Word {
				if at == point {
					return testdrive.Die
				}
				return testdrive.GoOn
			})
		}
		dieAt(copied)
		operation = i.clone(t, source.id, nil).Expect(t, http.StatusAccepted).String("operation")
		p.Wait(t)
		dieAt("provision: fill: done")
		testdrive.ExpireLeases(t, d.tasks.pool)
		p = startPlatform(t, private, env)
		p.Wait(t)
		faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
		testdrive.ExpireLeases(t, d.tasks.pool)
		p = startPlatform(t, private, env)
		i.platform, source.platform = p, p
		i.await(t, operation)
		expectClone(t, i)
		i.remove(t)
		expectTenants(t, d.admin, 1, 1)

		// The source is deleted.
		i = p.ownInstance(t, "shared-small")
		reached, release = holdAt(t, faults, copied)
		operation = i.clone(t, source.id, nil).Expect(t, http.StatusAccepted).String("operation")
		testdrive.Receive(t, reached, "rows are copied")
		source.deprovision(t, now).Expect(t, http.StatusOK)
		release()
		if state, shown := i.AwaitOperation(t, i.id, operation); state != "failed" ||
			!strings.Contains(shown[len(shown)-1], "was deleted") {
			t.Errorf("the copy without a source %s after %q", state, shown)
		}
		i.remove(t)
		expectTenants(t, d.admin, 0, 0)
	})
}
