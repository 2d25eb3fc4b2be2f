package operators

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A broker may die while it creates the data directory that servers are copied from. The next broker waits for the
// orphaned initialisation to end, and starts over.
func TestFaultCrashDuringTemplate(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	testdrive.OwnTemplates(t, env)
	first := testdrive.StartPlatform(t, s, env)
	i := first.OwnInstance(t, "dedicated-small")
	operation := i.BeginProvision(t)
	testdrive.Eventually(t, limits.Stuck, "a process makes a data directory", func() bool {
		return len(testdrive.Processes(t, env["LAUNCHER_DIR"]+"/templates")) > 0
	})
	tasks := testdrive.OpenTasks(t, env)
	last, _ := tasks.Latest(t, i.ID, "")
	first.Kill(t)
	testdrive.ExpireLeases(t, tasks.Pool)

	i = i.Via(testdrive.StartPlatform(t, s, env))
	tasks.AwaitTakeover(t, i.ID, "", last, testdrive.TakeoverTime)
	i.Await(t, operation)
	_, c := i.Bound(t, nil)
	c.Open(t)
	assert.Len(t, testdrive.Mysqlds(t, env["LAUNCHER_DIR"]), 1, "processes of one server")
	i.Remove(t)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
}

// Requests that arrive after a dedicated server is destroyed and before its instance's deletion ends get a
// ConcurrencyError.
func TestFaultRequestsAfterAServerIsDestroyed(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	faults := testdrive.NewFaults(t, env)
	p := testdrive.StartPlatform(t, s, env)
	i := p.MakeOwn(t, "dedicated-small")
	b, _ := i.Bound(t, nil)

	destroyed, goOn := testdrive.HoldAt(t, faults, "destroy: moved away")
	operation := i.Deprovision(t, testdrive.Async).Operation(t)
	testdrive.Receive(t, destroyed, "the server is destroyed")
	testdrive.ExpectError(t, b.Fetch(t), "ConcurrencyError")
	testdrive.ExpectError(t, b.Bind(t, nil), "ConcurrencyError")
	testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Async, "dedicated-large"), "ConcurrencyError")
	goOn()
	i.Await(t, operation)
	b.Fetch(t).Expect(t, http.StatusNotFound)
}
