package operators

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
func TestFaultLostCommit(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := testdrive.Environment(t, private)
	other := testdrive.StartPlatform(t, private, env)
	network, through := testdrive.ProxyURL(t, env["DATABASE_URL"])
	env["DATABASE_URL"] = through
	l := lossy{Platform: testdrive.StartPlatform(t, private, env), network: network}
	t.Run("intents", func(t *testing.T) { l.loseIntents(t, other) })
	t.Run("outcomes", l.loseOutcomes)
	testdrive.ExpectTenants(t, other.Admin(t), 0, 0)
}

// lossy is a broker whose connections to PostgreSQL break at will.
type lossy struct {
	testdrive.Platform
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
	testdrive.ExpectRefusal(t, l.losing(t, intent, send), http.StatusServiceUnavailable, "Try again")
	r := send()
	if !slices.Contains(good, r.Status) {
		t.Fatalf("the repeat is answered %d: %s", r.Status, r.Raw)
	}
	return r
}

func (l lossy) loseIntents(t *testing.T, other testdrive.Platform) {
	admin := other.Admin(t)
	i := l.OwnInstance(t, "shared-small")
	l.expectRepeated(t, "provision", func() testdrive.Response { return i.Provision(t, testdrive.Sync, nil) }, http.StatusOK)
	testdrive.ExpectTenants(t, admin, 1, 0)
	i.Via(other).Fetch(t).Expect(t, http.StatusOK)

	b := i.NewBinding()
	c := i.Credentials(t, l.expectRepeated(t, "bind", func() testdrive.Response { return b.Bind(t, nil) }, http.StatusOK))
	c.Open(t)
	testdrive.ExpectTenants(t, admin, 1, 1)
	l.expectRepeated(t, "unbind", func() testdrive.Response { return b.Unbind(t) }, http.StatusOK, http.StatusGone)
	testdrive.ExpectRefused(t, c.Fields(t))
	testdrive.ExpectTenants(t, admin, 1, 0)
	l.expectRepeated(t, "deprovision", func() testdrive.Response { return i.Deprovision(t, testdrive.Sync) }, http.StatusOK, http.StatusGone)
	i.Via(other).Deprovision(t, testdrive.Sync).Expect(t, http.StatusGone)
	testdrive.ExpectTenants(t, admin, 0, 0)
}

func (l lossy) loseOutcomes(t *testing.T) {
	admin := l.Admin(t)
	i := l.OwnInstance(t, "shared-small")
	l.losing(t, outcome, func() testdrive.Response { return i.Provision(t, testdrive.Sync, nil) }).Expect(t, http.StatusCreated)
	testdrive.ExpectTenants(t, admin, 1, 0)
	l.losing(t, outcome, func() testdrive.Response { return i.UpdatePlan(t, testdrive.Sync, "shared-large") }).
		Expect(t, http.StatusOK)
	b := i.NewBinding()
	c := i.Credentials(t, l.losing(t, outcome, func() testdrive.Response { return b.Bind(t, nil) }).
		Expect(t, http.StatusCreated))
	c.Open(t)
	l.losing(t, outcome, func() testdrive.Response { return b.Unbind(t) }).Expect(t, http.StatusOK)
	testdrive.ExpectTenants(t, admin, 1, 0)
	l.losing(t, outcome, func() testdrive.Response { return i.Deprovision(t, testdrive.Sync) }).Expect(t, http.StatusOK)
	i.Deprovision(t, testdrive.Sync).Expect(t, http.StatusGone)
}
