package operators

import (
	"cmp"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// stopTime bounds how long a broker takes to end after SIGTERM. That it waits for less than the 10 seconds that Cloud
// Foundry leaves it, package app tests.
const stopTime = 30 * time.Second

func TestStopFinishesRequests(t *testing.T) {
	p, _ := testdrive.PrivatePlatform(t)
	admin := p.Admin(t)
	i := p.OwnInstance(t, "shared-small")

	release := testdrive.Stall(t, admin)
	answers := p.Begin("PUT", i.Path(), i.ProvisionBody(nil))
	testdrive.AwaitStatement(t, admin, "CREATE DATABASE")
	poll := i.Poll(t, "?operation=provision")
	assert.Equal(t, "in progress", poll.String("state"), poll.Raw)
	assert.Equal(t, "Creating the service instance", poll.String("description"), "while a request waits")
	stopped := limits.Watch()
	p.Signal(t, syscall.SIGTERM)
	p.AwaitLog(t, `"msg":"stopping"`)
	release()
	r, ok := <-answers
	assert.True(t, ok && r.Status == 201, "the request under way was answered %d %s", r.Status, r.Raw)
	assert.Equal(t, 0, p.Wait(t), "exit status")
	stopped.Done(t, "the broker stops", stopTime)
	testdrive.ExpectTenants(t, admin, 1, 0)
}

// PostgreSQL commits, and the connection breaks before the response. The first commit of a request records what is
// intended: the request fails, and the platform's repeat finds the work under way. The second records the outcome: the
// broker finds out by itself that it is there.
func TestFaultLostCommit(t *testing.T) {
	other, env := testdrive.PrivatePlatform(t)
	network, through := testdrive.ProxyURL(t, env["DATABASE_URL"])
	env["DATABASE_URL"] = through
	p, admin := testdrive.StartPlatform(t, other.Server, env), other.Admin(t)
	const ok, created, gone = http.StatusOK, http.StatusCreated, http.StatusGone
	for _, outcome := range []string{"", "succeeded"} { // which the commit names, or else the operation
		i := p.OwnInstance(t, "shared-small")
		b := i.NewBinding()
		var c testdrive.Credentials
		for _, step := range []struct {
			kind                string
			send                func() testdrive.Response
			intended, ended     []int // statuses
			databases, accounts int
		}{
			{"provision", func() testdrive.Response { return i.Provision(t, testdrive.Sync, nil) }, []int{ok}, []int{created}, 1, 0},
			{"update", func() testdrive.Response { return i.UpdatePlan(t, testdrive.Sync, "shared-large") }, []int{ok}, []int{ok}, 1, 0},
			{"bind", func() testdrive.Response { return b.Bind(t, nil) }, []int{ok}, []int{created}, 1, 1},
			{"unbind", func() testdrive.Response { return b.Unbind(t) }, []int{ok, gone}, []int{ok}, 1, 0},
			{"deprovision", func() testdrive.Response { return i.Deprovision(t, testdrive.Sync) }, []int{ok, gone}, []int{ok}, 0, 0},
		} {
			lost := network.CutAnswer(testdrive.Parameter(cmp.Or(outcome, step.kind)))
			r, want := step.send(), step.ended
			select {
			case <-lost:
			default:
				t.Fatalf("no commit's answer was lost; the answer is %d %s", r.Status, r.Raw)
			}
			if outcome == "" {
				testdrive.ExpectRefusal(t, r, http.StatusServiceUnavailable, "Try again")
				r, want = step.send(), step.intended
			}
			require.Contains(t, want, r.Status, "%s is answered %s", step.kind, r.Raw)
			switch step.kind {
			case "bind":
				c = i.Credentials(t, r)
				c.Open(t)
			case "unbind":
				testdrive.ExpectRefused(t, c.Fields(t))
			}
			testdrive.ExpectTenants(t, admin, step.databases, step.accounts)
		}
		i.Via(other).Deprovision(t, testdrive.Sync).Expect(t, gone)
	}
}

// A broker may die while it creates the data directory that servers are copied from. The next broker waits for the
// orphaned initialisation to end, and starts over.
func TestFaultCrashDuringTemplate(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	testdrive.OwnTemplates(t, env)
	first := testdrive.StartPlatform(t, s, env)
	i := first.OwnInstance(t, "dedicated-small")
	operation := i.BeginProvision(t)
	testdrive.Eventually(t, "a process makes a data directory", func() bool {
		return len(testdrive.Processes(t, env["LAUNCHER_DIR"]+"/templates")) > 0
	})
	tasks := testdrive.OpenTasks(t, env)
	last, _ := tasks.Latest(t, i.ID)
	first.Kill(t)
	testdrive.ExpireLeases(t, tasks.Pool)

	i = i.Via(testdrive.StartPlatform(t, s, env))
	tasks.AwaitTakeover(t, i.ID, last)
	i.Await(t, operation)
	_, c := i.Bound(t, nil)
	c.Open(t)
	assert.Len(t, testdrive.Mysqlds(t, env["LAUNCHER_DIR"]), 1, "processes of one server")
	i.Remove(t)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
}
