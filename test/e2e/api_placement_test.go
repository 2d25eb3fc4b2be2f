package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// deadServer is described like a server, but nothing listens there.
func deadServer(t *testing.T, name string) map[string]any {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return testdrive.Described(name, servers.MySQL{BrokerUser: "admin", BrokerPassword: "unused-password", Host: "127.0.0.1",
		Port: l.Addr().(*net.TCPAddr).Port})
}

// startWith starts a broker with these shared servers and without a launcher.
func startWith(t *testing.T, server servers.MySQL, shared ...map[string]any) testdrive.Platform {
	t.Helper()
	text, err := json.Marshal(shared)
	if err != nil {
		t.Fatal(err)
	}
	env := testdrive.Environment(t, server)
	env["MYSQL_SERVERS"], env["LAUNCHER"] = string(text), "none"
	return testdrive.StartPlatform(t, server, env)
}

// Instances race for the last place on the only server. Once the winner is deleted, its place is free.
func TestFullServer(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	only := testdrive.Described("only", server)
	only["max_databases"] = 1
	p := startWith(t, server, only)
	var rivals []testdrive.Instance
	for range racers {
		rivals = append(rivals, p.NewInstance(t, "shared-small"))
	}
	answers := raceOver(t, []testdrive.Platform{p}, func(n int) (string, string, any) {
		return "PUT", rivals[n].Path(), rivals[n].ProvisionBody(nil)
	})
	expectStatuses(t, answers, http.StatusCreated, http.StatusBadRequest)
	winner := slices.IndexFunc(answers, func(r testdrive.Response) bool { return r.Status == http.StatusCreated })
	loser := (winner + 1) % racers
	testdrive.ExpectRefusal(t, answers[loser], 400, "no room")
	rivals[loser].Fetch(t).Expect(t, http.StatusNotFound)
	expectFigures(t, p, map[string]string{"mysql_broker_shared_servers_full_total": fmt.Sprint(racers - 1)})
	p.AwaitLog(t, "every shared server is full")
	testdrive.ExpectEmpty(t, rivals[winner].Deprovision(t, testdrive.Sync), http.StatusOK)
	testdrive.ExpectEmpty(t, rivals[loser].Provision(t, testdrive.Sync, nil), http.StatusCreated)
}

func TestEveryServerDead(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	p := startWith(t, server, deadServer(t, "dead"))
	i := p.NewInstance(t, "shared-small")
	testdrive.ExpectRefusal(t, i.Provision(t, testdrive.Sync, nil), http.StatusServiceUnavailable, "No shared MySQL server")
	i.Fetch(t).Expect(t, http.StatusNotFound)
}

// While the server is down, nobody knows whether the data fit a smaller plan, so the change is refused. A bind fails, and
// its repeat succeeds, even if the cleanup of the first attempt is still pending.
func TestServerThatIsDown(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	crashable := testdrive.StartCrashable(t, server.Flavour)
	p := startWith(t, crashable.MySQL, testdrive.Described("crashable", crashable.MySQL))
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
