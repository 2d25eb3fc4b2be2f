package operators

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestStopFinishesRequests(t *testing.T) {
	t.Parallel()
	private, env := testdrive.PrivateEnvironment(t)
	p := testdrive.StartPlatform(t, private, env)
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
	testdrive.ExpectStopped(t, p, stopped)
	testdrive.ExpectTenants(t, admin, 1, 0)
}

// An operation under way when its broker stops goes on elsewhere, without waiting for the lease to run out, and stays in
// the trace of the request that asked for it.
func TestStopHandsOver(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	traces := testdrive.StartCollector(t)
	env := tracedEnvironment(t, s, traces)
	first := testdrive.StartPlatform(t, s, env)
	i := first.OwnInstance(t, "dedicated-small")
	release := first.HoldLaunches(t)
	operation := i.BeginProvision(t)
	first.AwaitDescription(t, i, operation)
	second := testdrive.StartPlatform(t, s, env)
	tasks := testdrive.OpenTasks(t, env)
	last, _ := tasks.Latest(t, i.ID, "")

	stopped := limits.Watch()
	first.Signal(t, syscall.SIGTERM)
	tasks.AwaitTakeover(t, i.ID, "", last, testdrive.TakeoverTime)
	var attempt int
	tasks.Scan(t, &attempt, "SELECT attempt FROM task WHERE instance_id = $1", i.ID)
	if attempt != 0 { // whoever takes over after a lease that runs out counts that
		t.Errorf("the task was not handed over: %d leases on it ran out", attempt)
	}
	testdrive.ExpectStopped(t, first, stopped)
	release()
	i = i.Via(second)
	i.Await(t, operation)
	request := spanOf(t, traces.Spans(), "PUT /v2/service_instances/{instance_id}")
	for epoch := range 2 {
		expectParent(t, spanOf(t, awaitTask(t, traces, "provision", epoch+1), "task provision"), request)
	}
	i.Remove(t)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
}
