package chaos

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"mysql-broker/test/audit"
	"mysql-broker/test/testdrive"
)

// taskAttempts is how often a step is tried: see task.Config.
const taskAttempts = 6

// A task that takes every broker down with it is given up after its attempts: it ends failed, what it made is undone,
// and the platform reads a sentence.
func testCrashLoops(t *testing.T, c chaos) {
	loops := []struct {
		plan, point string
	}{
		{"shared-async", "before: CREATE DATABASE"},
		{"dedicated-small", "launch: process started"},
		{"shared-small", "after: CREATE DATABASE"},
		{"dedicated-small", "provision: check login: begins"},
	}
	for n, loop := range loops {
		if !long() && n != c.half {
			continue
		}
		t.Run(loop.plan+" "+loop.point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.flavour, c.tally, nil)
			w.crashLoop(t, planNamed(t, loop.plan), loop.point)
		})
	}
}

// crashLoop provisions an instance with brokers that all die at the same point, each replaced by another.
func (w *world) crashLoop(t *testing.T, p plan, fatal string) {
	t.Helper()
	deaths := make(chan int64, 2*taskAttempts) // epochs of the leases that those who die have
	w.watch.orderAll(func(pid int, point string) testdrive.Word {
		if point != fatal {
			return testdrive.GoOn
		}
		epoch := w.epoch(t)
		_ = syscall.Kill(pid, syscall.SIGKILL) // else it could take its own task again, once its lease has run out
		deaths <- epoch
		return testdrive.Die
	})
	x := target{workflow: workflow{kind: provision, plan: p}}
	x.instance = audit.Instance{ID: uuid.NewString(), PlanID: p.id}
	q := x.request()
	first := testdrive.Start(t, w.env)
	answers := first.Begin(q.method, q.path, q.body)
	died := 0
	for epoch, more := w.nextDeath(t, deaths); more; epoch, more = w.nextDeath(t, deaths) {
		died++
		w.tally.kill()
		w.expireLease(t, epoch)
		testdrive.Launch(t, w.env, "serve")
	}
	if died != taskAttempts {
		t.Errorf("%d brokers died, want %d", died, taskAttempts)
	}
	last := testdrive.Start(t, w.env)
	<-answers

	var r testdrive.Response
	testdrive.Eventually(t, patience, "the task ends", func() bool {
		r = last.Do(t, "GET", instancePath(x.instance.ID)+"/last_operation?operation=provision", nil)
		r.Expect(t, http.StatusOK)
		return r.String("state") != "in progress"
	})
	w.tally.operation()
	if r.String("state") != "failed" || !sentence(r.String("description")) {
		t.Errorf("the operation ended like this: %s", r.Raw)
	}
	x.instance.State = audit.Failed
	w.tell(x.instance)
	w.check(t, "after the task was given up")

	w.survivors = [2]*testdrive.Broker{last, last}
	q = p.deprovision(x.instance.ID)
	got, err := w.run(q)
	if err != nil || got.failed {
		t.Errorf("delete what has failed: %v: %s", err, got.Raw)
	}
	w.tellGone(x.instance.ID)
	w.check(t, "after what had failed was deleted")
	if len(deaths) > 0 {
		t.Errorf("%d more brokers died", len(deaths))
	}
}

// nextDeath returns the epoch of the lease of the next broker that dies, or false once the task is given up.
func (w *world) nextDeath(t *testing.T, deaths <-chan int64) (epoch int64, more bool) {
	t.Helper()
	testdrive.Eventually(t, patience, "a broker dies, or the task is given up", func() bool {
		select {
		case epoch = <-deaths:
			more = true
			return true
		default:
		}
		var givenUp bool
		if err := w.tasks.QueryRow(t.Context(), "SELECT coalesce(bool_and(phase = 'cleanup' OR state <> 'in progress'), "+
			"false) FROM task").Scan(&givenUp); err != nil {
			t.Fatal(err)
		}
		return givenUp && len(deaths) == 0
	})
	return epoch, more
}

// epoch is that of the latest lease on the one task in progress.
func (w *world) epoch(t *testing.T) (epoch int64) {
	t.Helper()
	if err := w.tasks.QueryRow(t.Context(), "SELECT epoch FROM task WHERE state = 'in progress'").Scan(&epoch); err != nil {
		t.Error(err)
	}
	return epoch
}

// expireLease has a lease run out now, unless it did by itself and another broker has taken the task over since.
func (w *world) expireLease(t *testing.T, epoch int64) {
	t.Helper()
	if _, err := w.tasks.Exec(t.Context(), "UPDATE task SET lease_until = now() WHERE state = 'in progress' AND epoch = $1",
		epoch); err != nil {
		t.Fatal(err)
	}
}
