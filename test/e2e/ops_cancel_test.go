package e2e

import (
	"database/sql"
	"net/http"
	"testing"

	"mysql-broker/test/testdrive"
)

// desk is a broker with a private server, which tests can stall, and an operator's commands.
type desk struct {
	testdrive.Platform
	testdrive.Operator
	admin  *sql.DB
	tasks  testdrive.Tasks
	faults *testdrive.Faults
}

// interrupted prepares a test that kills the broker while it works with the data of an instance. restart starts another
// one.
func interrupted(t *testing.T, flavour string, configure func(env map[string]string)) (d desk, i testdrive.Instance,
	c testdrive.Credentials, restart func() testdrive.Platform) {
	t.Helper()
	private := testdrive.Private(t, flavour)
	env := testdrive.Environment(t, private)
	configure(env)
	faults := testdrive.NewFaults(t, env)
	ts := testdrive.OpenTasks(t, env)
	restart = func() testdrive.Platform {
		t.Helper()
		testdrive.ExpireLeases(t, ts.Pool)
		return testdrive.StartPlatform(t, private, env)
	}
	p := testdrive.StartPlatform(t, private, env)
	i = p.OwnInstance(t, "shared-small")
	i.Provision(t, testdrive.Sync, body{"context": testdrive.CloudFoundry}).Expect(t, http.StatusCreated)
	return desk{p, p.Operator(env), p.Admin(t), ts, faults}, i, testdrive.MakeObjects(t, i), restart
}

// ended waits until a task has ended, and returns how.
func (d desk) ended(t *testing.T, task string) (state, description string) {
	t.Helper()
	return d.Outcome(t, d.tasks, task)
}
