package operators

import (
	"net/http"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

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
	operation := i.Deprovision(t, testdrive.Async).Expect(t, http.StatusAccepted).String("operation")
	testdrive.Receive(t, destroyed, "the server is destroyed")
	testdrive.ExpectError(t, b.Fetch(t), "ConcurrencyError")
	testdrive.ExpectError(t, b.Bind(t, nil), "ConcurrencyError")
	testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Async, "dedicated-large"), "ConcurrencyError")
	goOn()
	i.Await(t, operation)
	b.Fetch(t).Expect(t, http.StatusNotFound)
}
