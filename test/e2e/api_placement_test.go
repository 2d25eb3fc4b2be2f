package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

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

func TestFullServer(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		only := described("only", server)
		only["max_databases"] = 1
		p := startWith(t, server, only)
		first := p.provisioned(t, "shared-small", nil)
		second := p.newInstance(t, "shared-small")
		expectRefusal(t, second.provision(t, now, nil), 400, "no room")
		second.fetch(t).Expect(t, http.StatusNotFound)
		expectFigures(t, p, map[string]string{"mysql_broker_shared_servers_full_total": "1"})
		p.AwaitLog(t, "every shared server is full")
		expectEmpty(t, first.deprovision(t, now), http.StatusOK)
		expectEmpty(t, second.provision(t, now, nil), http.StatusCreated)
	})
}

func TestRaceForTheLastPlace(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		only := described("only", server)
		only["max_databases"] = 1
		p := startWith(t, server, only)
		var rivals []instance
		for range racers {
			rivals = append(rivals, p.newInstance(t, "shared-small"))
		}
		expectStatuses(t, race(t, p, func(n int) (string, string, any) {
			return "PUT", rivals[n].path(), rivals[n].provisionBody(nil)
		}), http.StatusCreated, http.StatusBadRequest)
	})
}

func TestDeadServerIsPassedOver(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		p := startWith(t, server, deadServer(t, "dead"), described("alive", server))
		for range 2 {
			_, c := p.provisioned(t, "shared-small", nil).bound(t, nil)
			if c.Port != server.Port {
				t.Errorf("the database is on port %d", c.Port)
			}
			c.open(t)
		}
	})
}

func TestEveryServerDead(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		p := startWith(t, server, deadServer(t, "dead"))
		i := p.newInstance(t, "shared-small")
		expectRefusal(t, i.provision(t, now, nil), http.StatusServiceUnavailable, "No shared MySQL server")
		i.fetch(t).Expect(t, http.StatusNotFound)
	})
}

// A plan that may be too small for the data cannot be judged while the server is down.
func TestUpdateWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		crashable := testdrive.StartCrashable(t, server.Flavour)
		p := startWith(t, crashable.MySQL, described("crashable", crashable.MySQL))
		i := p.provisioned(t, "shared-large", nil)
		let := crashable.Crash(t)
		expectRefusal(t, i.updatePlan(t, now, "shared-small"), http.StatusServiceUnavailable,
			"The MySQL server does not answer just now.")
		let()
		testdrive.Eventually(t, time.Minute, "the plan is changed", func() bool {
			return i.updatePlan(t, now, "shared-small").Status == http.StatusOK
		})
	})
}
