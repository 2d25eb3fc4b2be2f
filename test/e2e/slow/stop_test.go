package slow

import (
	"syscall"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A broker stops in time though a request and a round of measuring are under way, and PostgreSQL answers neither.
func TestStopWithoutPostgres(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.QuotaEnvironment(t, private)
		network, through := testdrive.ProxyURL(t, env["DATABASE_URL"])
		env["DATABASE_URL"] = through
		faults := testdrive.NewFaults(t, env)
		p := testdrive.StartPlatform(t, private, env)
		full, other := p.MakeOwn(t, "shared-small"), p.OwnInstance(t, "shared-small")
		_, c := full.Bound(t, nil)
		round, request := testdrive.NewGate(t, "quota: recorded"), testdrive.NewGate(t, "before: CREATE DATABASE")
		faults.Decide(func(_ int, at string) testdrive.Word {
			round.Pass(at)
			request.Pass(at)
			return testdrive.GoOn
		})
		testdrive.Fill(t, c.Open(t), 41)
		testdrive.Receive(t, round.Reached, "the round of measuring is under way")
		answer := p.Begin("PUT", other.Path(), other.ProvisionBody(nil))
		testdrive.Receive(t, request.Reached, "the request is under way")
		network.Freeze()
		stopped := limits.Watch()
		p.Signal(t, syscall.SIGTERM)
		p.AwaitLog(t, `"msg":"stopping"`)
		round.Release()
		request.Release()
		testdrive.Receive(t, answer, "the request is answered")
		testdrive.ExpectStopped(t, p, stopped)
	})
}
