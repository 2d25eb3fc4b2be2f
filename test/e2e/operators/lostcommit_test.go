package operators

import (
	"cmp"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/test/testdrive"
)

// PostgreSQL commits, and the connection breaks before the response. The first commit of a request records what is
// intended: the request fails, and the platform's repeat finds the work under way. The second records the outcome: the
// broker finds out by itself that it is there.
func TestFaultLostCommit(t *testing.T) {
	t.Parallel()
	private, env := testdrive.PrivateEnvironment(t)
	other := testdrive.StartPlatform(t, private, env)
	network, through := testdrive.ProxyURL(t, env["DATABASE_URL"])
	env["DATABASE_URL"] = through
	l := lossy{Platform: testdrive.StartPlatform(t, private, env), network: network}
	ok, created, ended := []int{http.StatusOK}, []int{http.StatusCreated}, []int{http.StatusOK, http.StatusGone}
	t.Run("intents", func(t *testing.T) { l.lose(t, other, "", ok, ok, ok, ended, ended) })
	t.Run("outcomes", func(t *testing.T) { l.lose(t, other, "succeeded", created, ok, created, ok, ok) })
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

// lose loses the response to a commit of each kind of operation on an instance and a binding. The names that the commit
// tells are those of the operations, or one for all. want are the statuses of the responses to the operations, or of
// their repeats.
func (l lossy) lose(t *testing.T, other testdrive.Platform, name string, want ...[]int) {
	admin, i := other.Admin(t), l.OwnInstance(t, "shared-small")
	b := i.NewBinding()
	var c testdrive.Credentials
	for n, step := range []struct {
		kind      string
		send      func() testdrive.Response
		databases int
		accounts  int
	}{
		{"provision", func() testdrive.Response { return i.Provision(t, testdrive.Sync, nil) }, 1, 0},
		{"update", func() testdrive.Response { return i.UpdatePlan(t, testdrive.Sync, "shared-large") }, 1, 0},
		{"bind", func() testdrive.Response { return b.Bind(t, nil) }, 1, 1},
		{"unbind", func() testdrive.Response { return b.Unbind(t) }, 1, 0},
		{"deprovision", func() testdrive.Response { return i.Deprovision(t, testdrive.Sync) }, 0, 0},
	} {
		r := l.losing(t, cmp.Or(name, step.kind), step.send)
		if name == "" {
			testdrive.ExpectRefusal(t, r, http.StatusServiceUnavailable, "Try again")
			r = step.send()
		}
		require.True(t, slices.Contains(want[n], r.Status), "%s is answered %d: %s", step.kind, r.Status, r.Raw)
		switch step.kind {
		case "bind":
			c = i.Credentials(t, r)
			c.Open(t)
		case "unbind":
			testdrive.ExpectRefused(t, c.Fields(t))
		}
		testdrive.ExpectTenants(t, admin, step.databases, step.accounts)
	}
	i.Via(other).Deprovision(t, testdrive.Sync).Expect(t, http.StatusGone)
}
