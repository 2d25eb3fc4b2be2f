package slow

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
			testdrive.Eventually(t, "the guard makes a round", func() bool {
				now := p.Scrape(t)[measured]
				return now != "" && now != before || strings.Contains(p.Log(), warning)
			})
		}
		assert.False(t, strings.Contains(p.Log(), warning), "operators are warned of a server that is starting")
		let()
		testdrive.Eventually(t, "the server is back", func() bool { return db.PingContext(t.Context()) == nil })

		let = testdrive.CrashDedicated(t, env["LAUNCHER_DIR"], id)
		p.AwaitLog(t, warning)
		let()
		testdrive.Eventually(t, "the server is back", func() bool { return db.PingContext(t.Context()) == nil })
		i.Via(p).Remove(t)
	})
}

// While operations change instances, expired accounts are locked, even if another server does not answer.
func TestExpiryBesideSilentServer(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		faults := testdrive.NewFaults(t, env)
		p := testdrive.StartPlatform(t, server, env)
		silent, well := p.MakeOwn(t, "dedicated-small"), p.MakeOwn(t, "shared-async")
		asked := body{"parameters": body{"ttl": "5s"}}
		for range 6 { // with ten seconds for each
			silent.Bound(t, asked)
		}
		_, c := well.Bound(t, asked)
		gates := testdrive.Hold(t, faults, "update: limit connections: begins", "update: resize: begins")
		updated := make(chan testdrive.Response, 1)
		go func() { updated <- well.UpdatePlan(t, testdrive.Async, "shared-large") }()
		testdrive.Receive(t, gates[0].Reached, "the update has begun")
		silent.UpdatePlan(t, testdrive.Async, "dedicated-large").Expect(t, http.StatusAccepted)
		testdrive.Receive(t, gates[1].Reached, "the other update has begun")
		pid := testdrive.Mysqlds(t, env["LAUNCHER_DIR"])[0]
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		thaw := sync.OnceFunc(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
		defer thaw()
		login := testdrive.Connect(t, c.Fields(t))
		login.SetMaxIdleConns(0)
		testdrive.Eventually(t, "the account is locked", func() bool { return login.PingContext(t.Context()) != nil })
		gates[0].Release()
		testdrive.Receive(t, updated, "the update ends").Expect(t, http.StatusOK)
		well.Remove(t)
		thaw()
		gates[1].Release()
		silent.Remove(t)
	})
}
