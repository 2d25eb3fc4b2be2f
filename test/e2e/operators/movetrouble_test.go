package operators

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

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
	i := p.MakeOwn(t, "shared-small")
	_, c := i.Bound(t, nil)
	db := c.Open(t)
	testdrive.Overfill(t, db, testdrive.QuotaSmall)

	reached, release := testdrive.HoldAt(t, faults, "update: compare: begins")
	operation := i.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t)
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
