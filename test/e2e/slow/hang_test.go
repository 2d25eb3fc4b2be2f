package slow

import (
	"net/http"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

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
