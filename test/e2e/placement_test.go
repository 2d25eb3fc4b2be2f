package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Instances race for the last place on the only server. Once the winner is deleted, its place is free.
func TestFullServer(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	only := testdrive.Described("only", server)
	only["max_databases"] = 1
	p := testdrive.StartWith(t, server, only)
	var rivals []testdrive.Instance
	for range testdrive.Racers {
		rivals = append(rivals, p.NewInstance(t, "shared-small"))
	}
	answers := testdrive.RaceOver(t, []testdrive.Platform{p}, func(n int) (string, string, any) {
		return "PUT", rivals[n].Path(), rivals[n].ProvisionBody(nil)
	})
	testdrive.ExpectStatuses(t, answers, http.StatusCreated, http.StatusBadRequest)
	winner := slices.IndexFunc(answers, func(r testdrive.Response) bool { return r.Status == http.StatusCreated })
	loser := (winner + 1) % testdrive.Racers
	testdrive.ExpectRefusal(t, answers[loser], 400, "no room")
	rivals[loser].Fetch(t).Expect(t, http.StatusNotFound)
	testdrive.ExpectFigures(t, p, map[string]string{"mysql_broker_shared_servers_full_total": fmt.Sprint(testdrive.Racers - 1)})
	p.AwaitLog(t, "every shared server is full")
	testdrive.ExpectEmpty(t, rivals[winner].Deprovision(t, testdrive.Sync), http.StatusOK)
	testdrive.ExpectEmpty(t, rivals[loser].Provision(t, testdrive.Sync, nil), http.StatusCreated)
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
