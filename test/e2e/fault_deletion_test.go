package e2e

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestFaultDeleteDuringCreate has a broker of its own, so that whatever the launcher has left is this test's.
func TestFaultDeleteDuringCreate(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	faults := testdrive.NewFaults(t, env)
	p := testdrive.StartPlatform(t, server, env)
	i := p.NewInstance(t, "dedicated-small")
	started, release := testdrive.HoldAt(t, faults, "launch: process started")
	creation := i.Provision(t, testdrive.Async, nil).Expect(t, http.StatusAccepted).String("operation")
	testdrive.Receive(t, started, "the server is started")
	deletion := i.Deprovision(t, testdrive.Async).Expect(t, http.StatusAccepted).String("operation")
	if deletion == creation {
		t.Error("the deletion has the creation's token")
	}
	release()
	i.Await(t, deletion)
	r := i.Poll(t, "?operation="+creation).Expect(t, http.StatusOK)
	if r.String("state") != "failed" || !strings.Contains(r.String("description"), "Cancelled") {
		t.Errorf("the creation ended as %s", r.Raw)
	}
	testdrive.CheckNothingLeft(t, env["LAUNCHER_DIR"])
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Async), http.StatusGone)

	i.Await(t, i.Provision(t, testdrive.Async, nil).Expect(t, http.StatusAccepted).String("operation"))
	_, c := i.Bound(t, nil)
	c.Open(t)
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
	operation := i.Deprovision(t, testdrive.Async).Expect(t, http.StatusAccepted).String("operation")
	testdrive.Receive(t, destroyed, "the server is destroyed")
	testdrive.ExpectError(t, b.Fetch(t), "ConcurrencyError")
	testdrive.ExpectError(t, b.Bind(t, nil), "ConcurrencyError")
	testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Async, "dedicated-large"), "ConcurrencyError")
	goOn()
	i.Await(t, operation)
	b.Fetch(t).Expect(t, http.StatusNotFound)
}
