package tenants

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// With QUOTA_INTERVAL=0, quotas are lifted.
func TestQuotaOff(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := testdrive.QuotaEnvironment(t, private)
	p := testdrive.StartPlatform(t, private, env)
	i := p.MakeOwn(t, "shared-small")
	_, c := i.Bound(t, nil)
	db := c.Open(t)
	testdrive.Overfill(t, db, testdrive.QuotaSmall)
	p.Kill(t)
	env["QUOTA_INTERVAL"] = "0"
	p = testdrive.StartPlatform(t, private, env)
	testdrive.AwaitAllowed(t, db)
	testdrive.Fill(t, db, 2)
	reported, _ := testdrive.Field(i.Via(p).Fetch(t).Body, "metadata", "attributes").(map[string]any)
	for name := range reported {
		if strings.HasPrefix(name, "storage") {
			t.Errorf("the platform is told of measurements that are not made any more: %v", reported)
		}
	}
	testdrive.ExpectEmpty(t, i.Via(p).Deprovision(t, testdrive.Sync), http.StatusOK)
}

func TestQuotaOfADedicatedServer(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.QuotaEnvironment(t, s)
	p := testdrive.StartPlatform(t, s, env)
	i := p.MakeOwn(t, "dedicated-small")
	_, c := i.Bound(t, nil)
	db := c.Open(t)
	testdrive.Overfill(t, db, testdrive.QuotaDedicated)
	expectOver(t, i, true)
	_, made := i.Bound(t, nil)
	expectRefusals(t, made.Open(t))
	testdrive.Exec(t, made.Open(t), "DELETE FROM filler")
	testdrive.AwaitAllowed(t, db)
	expectOver(t, i, false)

	testdrive.SignalMysqlds(t, env["LAUNCHER_DIR"], syscall.SIGSTOP)
	defer testdrive.SignalMysqlds(t, env["LAUNCHER_DIR"], syscall.SIGCONT)
	p.AwaitLog(t, "measuring all databases of a server failed")
	const measured = `mysql_broker_quota_measurement_timestamp_seconds{server=""}`
	hanging := p.Scrape(t)[measured]
	testdrive.SignalMysqlds(t, env["LAUNCHER_DIR"], syscall.SIGCONT)
	testdrive.Eventually(t, testdrive.QuotaTime, "the server is measured again", func() bool {
		return p.Scrape(t)[measured] > hanging
	})
	i.Remove(t)
}
