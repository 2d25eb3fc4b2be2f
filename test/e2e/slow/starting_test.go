package slow

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// After a restart of the host, a server that is still starting is nothing to warn of. One that was up before is.
func TestServerThatIsStartingIsNotWarnedOf(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		env["QUOTA_INTERVAL"] = "1s"
		p := testdrive.StartPlatform(t, server, env)
		i := p.MakeOwn(t, "dedicated-small")
		_, c := i.Bound(t, nil)
		db := c.Open(t)
		id := testdrive.DedicatedID(t, env)
		p.Signal(t, syscall.SIGTERM)
		p.Wait(t)

		let := testdrive.CrashDedicated(t, env["LAUNCHER_DIR"], id)
		p = testdrive.StartPlatform(t, server, env)
		const warning = "measuring all databases of a server failed"
		const measured = `mysql_broker_quota_measurement_timestamp_seconds{server=""}`
		for range 2 {
			before := p.Scrape(t)[measured]
			testdrive.Eventually(t, testdrive.QuotaTime, "the guard makes a round", func() bool {
				now := p.Scrape(t)[measured]
				return now != "" && now != before || strings.Contains(p.Log(), warning)
			})
		}
		assert.False(t, strings.Contains(p.Log(), warning), "operators are warned of a server that is starting")
		let()
		testdrive.Eventually(t, testdrive.RestartTime, "the server is back", func() bool { return db.PingContext(t.Context()) == nil })

		let = testdrive.CrashDedicated(t, env["LAUNCHER_DIR"], id)
		p.AwaitLog(t, warning)
		let()
		testdrive.Eventually(t, testdrive.RestartTime, "the server is back", func() bool { return db.PingContext(t.Context()) == nil })
		i.Via(p).Remove(t)
	})
}
