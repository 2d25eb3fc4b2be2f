package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// described is a shared server as MYSQL_SERVERS describes it.
func described(name string, s servers.MySQL) map[string]any {
	return map[string]any{"name": name, "ca_certificate": s.CA,
		"uri": fmt.Sprintf("mysql://%s:%s@%s:%d/", s.BrokerUser, s.BrokerPassword, s.Host, s.Port)}
}

// deadServer is described like a server, but nothing listens there.
func deadServer(t *testing.T, name string) map[string]any {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return described(name, servers.MySQL{BrokerUser: "admin", BrokerPassword: "unused-password", Host: "127.0.0.1",
		Port: l.Addr().(*net.TCPAddr).Port})
}

// startWith starts a broker with these shared servers and without a launcher.
func startWith(t *testing.T, server servers.MySQL, shared ...map[string]any) platform {
	t.Helper()
	text, err := json.Marshal(shared)
	if err != nil {
		t.Fatal(err)
	}
	env := testdrive.Environment(t, server)
	env["MYSQL_SERVERS"], env["LAUNCHER"] = string(text), "none"
	return startPlatform(t, server, env)
}

// Instances race for the last place on the only server. Once the winner is deleted, its place is free.
func TestFullServer(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		only := described("only", server)
		only["max_databases"] = 1
		p := startWith(t, server, only)
		var rivals []instance
		for range racers {
			rivals = append(rivals, p.newInstance(t, "shared-small"))
		}
		answers := raceOver(t, []platform{p}, func(n int) (string, string, any) {
			return "PUT", rivals[n].path(), rivals[n].provisionBody(nil)
		})
		expectStatuses(t, answers, http.StatusCreated, http.StatusBadRequest)
		winner := slices.IndexFunc(answers, func(r testdrive.Response) bool { return r.Status == http.StatusCreated })
		loser := (winner + 1) % racers
		expectRefusal(t, answers[loser], 400, "no room")
		rivals[loser].fetch(t).Expect(t, http.StatusNotFound)
		expectFigures(t, p, map[string]string{"mysql_broker_shared_servers_full_total": fmt.Sprint(racers - 1)})
		p.AwaitLog(t, "every shared server is full")
		expectEmpty(t, rivals[winner].deprovision(t, now), http.StatusOK)
		expectEmpty(t, rivals[loser].provision(t, now, nil), http.StatusCreated)
	})
}

func TestEveryServerDead(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		p := startWith(t, server, deadServer(t, "dead"))
		i := p.newInstance(t, "shared-small")
		expectRefusal(t, i.provision(t, now, nil), http.StatusServiceUnavailable, "No shared MySQL server")
		i.fetch(t).Expect(t, http.StatusNotFound)
	})
}

// While the server is down, nobody knows whether the data fit a smaller plan, so the change is refused.
func TestUpdateWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		crashable := testdrive.StartCrashable(t, server.Flavour)
		p := startWith(t, crashable.MySQL, described("crashable", crashable.MySQL))
		i := p.provisioned(t, "shared-large", nil)
		let := crashable.Crash(t)
		expectRefusal(t, i.updatePlan(t, now, "shared-small"), http.StatusServiceUnavailable,
			"The MySQL server does not answer just now.")
		let()
		testdrive.Eventually(t, testdrive.Patience, "the plan is changed", func() bool {
			return i.updatePlan(t, now, "shared-small").Status == http.StatusOK
		})
	})
}
