package e2e

import (
	"net/http"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A request that failed while a server was away is repeated when the server is back. The repeat succeeds, even if the
// cleanup of the first attempt is still pending.
func TestRepeatsAfterMySQLCameBack(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		server := testdrive.StartCrashable(t, s.Flavour)
		p := startPlatform(t, server.MySQL, testdrive.Environment(t, server.MySQL))
		admin := p.admin(t)
		i := p.makeOwn(t, "shared-small")
		b := i.newBinding()
		let := server.Crash(t)
		b.bind(t, nil).Expect(t, http.StatusServiceUnavailable)
		let()
		testdrive.Eventually(t, testdrive.Patience, "the server is back", func() bool { return admin.PingContext(t.Context()) == nil })
		i.credentials(t, b.bind(t, nil).Expect(t, http.StatusCreated)).open(t)
		expectTenants(t, admin, 1, 1)
		i.deprovision(t, now).Expect(t, http.StatusOK)
	})
}
