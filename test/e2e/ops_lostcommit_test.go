package e2e

import (
	"net/http"
	"slices"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// PostgreSQL commits, and the connection breaks before the response. The first commit of a request records what is
// intended: the request fails, and the platform's repeat finds the work under way. The second records the outcome: the
// broker finds out by itself that it is there.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		other := startPlatform(t, private, env)
		network, through := testdrive.ProxyURL(t, env["DATABASE_URL"])
		env["DATABASE_URL"] = through
		l := lossy{platform: startPlatform(t, private, env), network: network}
		t.Run("intents", func(t *testing.T) { l.loseIntents(t, other) })
		t.Run("outcomes", l.loseOutcomes)
		t.Run("intent of a dedicated instance", l.loseDedicatedIntent)
		expectTenants(t, other.admin(t), 0, 0)
	})
}

// lossy is a broker whose connections to PostgreSQL break at will.
type lossy struct {
	platform
	network *testdrive.Proxy
}

// losing sends a request and loses the response to what it has committed, which names an operation or an outcome.
func (l lossy) losing(t *testing.T, named string, send func() testdrive.Response) testdrive.Response {
	t.Helper()
	lost := l.network.CutAnswer(testdrive.Parameter(named), 0)
	r := send()
	select {
	case <-lost:
	default:
		t.Fatalf("no commit's answer was lost; the answer is %d %s", r.Status, r.Raw)
	}
	return r
}

const outcome = "succeeded"

// expectRepeated fails the test unless the request fails once, and its repeats through either broker succeed.
func (l lossy) expectRepeated(t *testing.T, intent string, send func() testdrive.Response,
	good ...int) testdrive.Response {
	t.Helper()
	expectRefusal(t, l.losing(t, intent, send), http.StatusServiceUnavailable, "Try again")
	r := send()
	if !slices.Contains(good, r.Status) {
		t.Fatalf("the repeat is answered %d: %s", r.Status, r.Raw)
	}
	return r
}

func (l lossy) loseIntents(t *testing.T, other platform) {
	admin := other.admin(t)
	i := l.ownInstance(t, "shared-small")
	l.expectRepeated(t, "provision", func() testdrive.Response { return i.provision(t, now, nil) }, http.StatusOK)
	expectTenants(t, admin, 1, 0)
	i.via(other).fetch(t).Expect(t, http.StatusOK)

	b := i.newBinding()
	c := i.credentials(t, l.expectRepeated(t, "bind", func() testdrive.Response { return b.bind(t, nil) }, http.StatusOK))
	c.open(t)
	expectTenants(t, admin, 1, 1)
	l.expectRepeated(t, "unbind", func() testdrive.Response { return b.unbind(t) }, http.StatusOK, http.StatusGone)
	expectRefused(t, c.fields(t))
	expectTenants(t, admin, 1, 0)
	l.expectRepeated(t, "deprovision", func() testdrive.Response { return i.deprovision(t, now) }, http.StatusOK, http.StatusGone)
	i.via(other).deprovision(t, now).Expect(t, http.StatusGone)
	expectTenants(t, admin, 0, 0)
}

func (l lossy) loseOutcomes(t *testing.T) {
	admin := l.admin(t)
	i := l.ownInstance(t, "shared-small")
	l.losing(t, outcome, func() testdrive.Response { return i.provision(t, now, nil) }).Expect(t, http.StatusCreated)
	expectTenants(t, admin, 1, 0)
	l.losing(t, outcome, func() testdrive.Response { return i.updatePlan(t, now, "shared-large") }).
		Expect(t, http.StatusOK)
	b := i.newBinding()
	c := i.credentials(t, l.losing(t, outcome, func() testdrive.Response { return b.bind(t, nil) }).
		Expect(t, http.StatusCreated))
	c.open(t)
	l.losing(t, outcome, func() testdrive.Response { return b.unbind(t) }).Expect(t, http.StatusOK)
	expectTenants(t, admin, 1, 0)
	l.losing(t, outcome, func() testdrive.Response { return i.deprovision(t, now) }).Expect(t, http.StatusOK)
	i.deprovision(t, now).Expect(t, http.StatusGone)
}

func (l lossy) loseDedicatedIntent(t *testing.T) {
	i := l.ownInstance(t, "dedicated-small")
	r := l.expectRepeated(t, "provision", func() testdrive.Response { return i.provision(t, later, nil) }, http.StatusAccepted)
	if again := i.provision(t, later, nil); again.Status == http.StatusAccepted && again.String("operation") != r.String("operation") {
		t.Errorf("the repeat began %s beside %s", again.String("operation"), r.String("operation"))
	}
	i.await(t, r.String("operation"))
	i.remove(t)
}
