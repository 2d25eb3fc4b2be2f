package tenants

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"testing"

	sharedserver "mysql-broker/deploy/shared-server"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A server on which the broker's account lacks a privilege gets no instances until the privilege is granted.
func TestMissingPrivilege(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	admin := testdrive.Platform{Server: server}.Admin(t)
	lacking := server
	lacking.BrokerUser, lacking.BrokerPassword = "b_"+strings.ToLower(rand.Text()[:16]), rand.Text()
	statements, err := sharedserver.Statements(server.Flavour, lacking.BrokerPassword)
	if err != nil {
		t.Fatal(err)
	}
	for n := range statements {
		statements[n] = strings.Replace(statements[n], sharedserver.Account, lacking.BrokerUser, 1)
	}
	last := len(statements) - 1
	testdrive.Exec(t, admin, statements[:last]...)
	t.Cleanup(func() { // once the broker has removed the instance and stopped
		if _, err := admin.ExecContext(context.Background(), "DROP USER "+lacking.BrokerUser); err != nil {
			t.Error(err)
		}
	})
	p := testdrive.StartWith(t, server, testdrive.Described("lacking", lacking))
	line := p.AwaitLog(t, "lacks privileges")
	if want := "GRANT ALL PRIVILEGES ON `db"; !strings.Contains(line, want) || strings.Contains(line, "PROCESS") {
		t.Errorf("the log does not say what to run: %s", line)
	}
	i := p.NewInstance(t, "shared-small")
	testdrive.ExpectRefusal(t, i.Provision(t, testdrive.Sync, nil), http.StatusServiceUnavailable, "No shared MySQL server")
	i.Fetch(t).Expect(t, http.StatusNotFound)
	testdrive.ExpectFigures(t, p, map[string]string{`mysql_broker_shared_server_usable{server="lacking"}`: "0"})

	testdrive.Exec(t, admin, statements[last])
	testdrive.Eventually(t, limits.Stuck, "the server is used", func() bool {
		return i.Provision(t, testdrive.Sync, nil).Status == http.StatusCreated
	})
	testdrive.ExpectFigures(t, p, map[string]string{`mysql_broker_shared_server_usable{server="lacking"}`: "1"})
}
