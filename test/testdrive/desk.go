package testdrive

import (
	"database/sql"
	"net/http"
	"strings"
	"testing"
)

// Desk is a broker with a private server, which tests can stall, and an operator's commands.
type Desk struct {
	Platform
	Operator
	AdminDB *sql.DB
	Tasks   Tasks
	Faults  *Faults
}

// Desk is the platform's broker with what tests need beside it. faults may be nil.
func (p Platform) Desk(t *testing.T, env map[string]string, faults *Faults) Desk {
	t.Helper()
	return Desk{p, p.Operator(env), p.Admin(t), OpenTasks(t, env), faults}
}

// Interrupted prepares a test that kills the broker while it works with the data of an instance. restart starts another
// one.
func Interrupted(t *testing.T, flavour string, configure func(env map[string]string)) (d Desk, i Instance,
	c Credentials, restart func() Platform) {
	t.Helper()
	private := Private(t, flavour)
	env := Environment(t, private)
	configure(env)
	faults := NewFaults(t, env)
	ts := OpenTasks(t, env)
	restart = func() Platform {
		t.Helper()
		ExpireLeases(t, ts.Pool)
		return StartPlatform(t, private, env)
	}
	p := StartPlatform(t, private, env)
	i = p.OwnInstance(t, "shared-small")
	i.Provision(t, Sync, Body{"context": CloudFoundry}).Expect(t, http.StatusCreated)
	return Desk{p, p.Operator(env), p.Admin(t), ts, faults}, i, MakeObjects(t, i), restart
}

// Ended waits until a task has ended, and returns how.
func (d Desk) Ended(t *testing.T, task string) (state, description string) {
	t.Helper()
	return d.Outcome(t, d.Tasks, task)
}

// Failing makes every step of that name fail until enough is called.
func (d Desk) Failing(step string) (enough func()) {
	d.Faults.Decide(func(_ int, point string) Word {
		if strings.HasSuffix(point, ": "+step+": begins") {
			return Fail
		}
		return GoOn
	})
	return func() { d.Faults.Decide(func(int, string) Word { return GoOn }) }
}

// Latest is the newest task of an instance and its bindings.
func (d Desk) Latest(t *testing.T, i Instance) string {
	t.Helper()
	all := d.IDs(t, "task", "tasks", "--instance", i.ID, "--limit", "1")
	if len(all) != 1 {
		t.Fatalf("tasks of %s: %q", i.ID, all)
	}
	return all[0]
}
