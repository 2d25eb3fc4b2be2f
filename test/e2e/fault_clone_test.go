package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestFaultClone interrupts copies in different ways, while rows are being copied.
func TestFaultClone(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		faults := testdrive.NewFaults(t, env)
		p := testdrive.StartPlatform(t, private, env)
		d := desk{p, p.Operator(env), p.Admin(t), testdrive.OpenTasks(t, env), faults}
		source := p.OwnInstance(t, "shared-small")
		source.Provision(t, testdrive.Sync, body{"context": testdrive.CloudFoundry}).Expect(t, http.StatusCreated)
		c := testdrive.MakeObjects(t, source)
		db := c.Open(t)
		for n := range 12 { // workers are at some when the first is copied
			testdrive.Exec(t, db, fmt.Sprintf("CREATE TABLE t%d AS SELECT 1 AS id", n))
		}
		const copied = "provision: copied"

		// An operator cancels it.
		i := p.OwnInstance(t, "shared-small")
		reached, release := testdrive.HoldAt(t, faults, copied)
		operation := i.Clone(t, source.ID, nil).Expect(t, http.StatusAccepted).String("operation")
		testdrive.Receive(t, reached, "rows are copied")
		d.Run(t, 0, "tasks", "cancel", operation)
		release()
		if state, says := d.ended(t, operation); state != "failed" || !strings.HasPrefix(says, byOperator) {
			t.Errorf("the cancelled copy %s: %s", state, says)
		}
		i.Remove(t)
		testdrive.ExpectTenants(t, d.admin, 1, 1)

		// The platform deletes the copy.
		i = p.OwnInstance(t, "shared-small")
		reached, release = testdrive.HoldAt(t, faults, copied)
		i.Clone(t, source.ID, nil).Expect(t, http.StatusAccepted)
		testdrive.Receive(t, reached, "rows are copied")
		deleted := i.Begin("DELETE", i.Deletion(i.Path(), testdrive.Sync), nil)
		release()
		testdrive.Receive(t, deleted, "the copy is deleted").Expect(t, http.StatusOK)
		testdrive.ExpectTenants(t, d.admin, 1, 1)

		// The source is deleted.
		i = p.OwnInstance(t, "shared-small")
		reached, release = testdrive.HoldAt(t, faults, copied)
		operation = i.Clone(t, source.ID, nil).Expect(t, http.StatusAccepted).String("operation")
		testdrive.Receive(t, reached, "rows are copied")
		source.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
		release()
		if state, shown := i.AwaitOperation(t, i.ID, operation); state != "failed" ||
			!strings.Contains(shown[len(shown)-1], "was deleted") {
			t.Errorf("the copy without a source %s after %q", state, shown)
		}
		i.Remove(t)
		testdrive.ExpectTenants(t, d.admin, 0, 0)
	})
}
