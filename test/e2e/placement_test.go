package e2e

import (
	"net/http"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// The only server is full. Once an instance is deleted, its place is free.
func TestFullServer(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	only := testdrive.Described("only", server)
	only["max_databases"] = 1
	p := testdrive.StartWith(t, server, only)
	first, second := p.Provisioned(t, "shared-small", nil), p.NewInstance(t, "shared-small")
	testdrive.ExpectRefusal(t, second.Provision(t, testdrive.Sync, nil), 400, "no room")
	second.Fetch(t).Expect(t, http.StatusNotFound)
	testdrive.ExpectFigures(t, p, map[string]string{"mysql_broker_shared_servers_full_total": "1"})
	p.AwaitLog(t, "every shared server is full")
	testdrive.ExpectEmpty(t, first.Deprovision(t, testdrive.Sync), http.StatusOK)
	testdrive.ExpectEmpty(t, second.Provision(t, testdrive.Sync, nil), http.StatusCreated)
}

// While the server is down, nobody knows whether the data fit a smaller plan, so the change is refused. A bind fails, and
// its repeat succeeds, even if the cleanup of the first attempt is still pending.
func TestServerThatIsDown(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	crashable := testdrive.StartCrashable(t, server.Flavour)
	p := testdrive.StartWith(t, crashable.MySQL, testdrive.Described("crashable", crashable.MySQL))
	i := p.Provisioned(t, "shared-large", nil)
	let := crashable.Crash(t)
	testdrive.ExpectRefusal(t, i.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusServiceUnavailable,
		"The MySQL server does not answer just now.")
	b := i.NewBinding()
	b.Bind(t, nil).Expect(t, http.StatusServiceUnavailable)
	let()
	testdrive.Eventually(t, limits.Stuck, "the plan is changed", func() bool {
		return i.UpdatePlan(t, testdrive.Sync, "shared-small").Status == http.StatusOK
	})
	i.Credentials(t, b.Bind(t, nil).Expect(t, http.StatusCreated)).Open(t)
	testdrive.ExpectTenants(t, p.Admin(t), 1, 1)
}
