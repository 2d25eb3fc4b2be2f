package e2e

import (
	"syscall"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A replica that was paused for longer than its lease has lost its task. Neither the statements that it sent before nor
// what it does afterwards may change anything.
func TestFaultPausedReplica(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := testdrive.Environment(t, private)
	pauseProvision(t, replicas{paused: testdrive.StartPlatform(t, private, env), other: testdrive.StartPlatform(t, private, env),
		tasks: testdrive.OpenTasks(t, env)})
}

// firstEpoch is that of the replica which the request came to and which works on it at once.
const firstEpoch = 1

// replicas are two brokers with the same state.
type replicas struct {
	paused, other testdrive.Platform
	tasks         testdrive.Tasks
}

func pauseProvision(t *testing.T, r replicas) {
	admin := r.other.Admin(t)
	i := r.paused.OwnInstance(t, "shared-small")
	wake := r.pauseAt(t, "CREATE DATABASE", i.Path(), i.ProvisionBody(nil))
	r.tasks.AwaitTakeover(t, i.ID, "", firstEpoch, testdrive.TakeoverTime)
	r.tasks.AwaitSuccess(t, i.ID, "")
	i.Via(r.other).Deprovision(t, testdrive.Sync).Expect(t, 200)

	wake()
	testdrive.ExpectTenants(t, admin, 0, 0)
	i.Via(r.other).Fetch(t).Expect(t, 404)
}

// pauseAt sends a PUT to the replica to be paused, and stops that one while the server executes the statement that
// begins like this. The statement itself then ends. wake lets the replica go on until it has found its task to be
// another's and has answered: it may say how the task ended there.
func (r replicas) pauseAt(t *testing.T, statement, path string, fields body) (wake func()) {
	t.Helper()
	admin := r.other.Admin(t)
	release := testdrive.Stall(t, admin)
	answers := r.paused.Begin("PUT", path, fields)
	testdrive.AwaitStatement(t, admin, statement)
	r.paused.Pause(t)
	t.Cleanup(func() { r.paused.Signal(t, syscall.SIGCONT) })
	release()
	return func() {
		t.Helper()
		r.paused.Signal(t, syscall.SIGCONT)
		r.paused.AwaitLog(t, "lease lost")
		if _, ok := <-answers; !ok {
			t.Error("the replica that went on did not answer")
		}
		expectFigures(t, r.paused, map[string]string{"mysql_broker_task_leases_lost_total": "1"})
	}
}
