package e2e

import (
	"net/http"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A request that failed while a server was away is repeated when the server is back. The repeat succeeds, even if the
// cleanup of the first attempt is still pending.
func TestFaultRepeatsAfterMySQLCameBack(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	server := testdrive.StartCrashable(t, s.Flavour)
	p := testdrive.StartPlatform(t, server.MySQL, testdrive.Environment(t, server.MySQL))
	admin := p.Admin(t)
	i := p.MakeOwn(t, "shared-small")
	b := i.NewBinding()
	let := server.Crash(t)
	b.Bind(t, nil).Expect(t, http.StatusServiceUnavailable)
	let()
	testdrive.Eventually(t, limits.Stuck, "the server is back", func() bool { return admin.PingContext(t.Context()) == nil })
	i.Credentials(t, b.Bind(t, nil).Expect(t, http.StatusCreated)).Open(t)
	testdrive.ExpectTenants(t, admin, 1, 1)
	i.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
}
