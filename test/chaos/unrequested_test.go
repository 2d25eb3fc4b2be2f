package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mysql-broker/test/audit"
	"mysql-broker/test/testdrive"
)

// Kinds of tasks that no platform requests.
const (
	expire = "expire"
	rotate = "rotate"
)

// testUnrequestedKills kills brokers in tasks that no platform requests: the end of an expired binding, and a new
// password after a leak. Whichever broker is free runs them. So there is one at a time, and whichever broker comes to
// the point dies. Then the end of a binding fails, for some time or because the server does not answer.
func testUnrequestedKills(t *testing.T, c chaos) {
	server := testdrive.StartCrashable(t, c.flavour)
	env := testdrive.Environment(t, server.MySQL)
	w := newWorldWith(t, server.MySQL, c.tally, env, testdrive.Inspectors(env), nil)
	all := 0
	for _, f := range []workflow{
		{kind: expire, plan: planNamed(t, "shared-small")},
		{kind: expire, plan: planNamed(t, "shared-small"), view: true},
		{kind: rotate, plan: planNamed(t, "shared-small"), view: true},
	} {
		points := w.cutUnrequested(t, f, point{})
		t.Logf("%s passes %d points: %v", f, len(points), points)
		w.tally.pointsPassed(len(points))
		for _, p := range points {
			if all++; long() || (all-c.share)%8 == 0 {
				w.cutUnrequested(t, f, p)
			}
		}
	}
	f := workflow{kind: expire, plan: planNamed(t, "shared-small"), view: true}
	for n, moment := range []string{"begins", "done"} {
		if long() {
			w.failExpiry(t, f, moment, taskAttempts+1)
		} else if n == c.half {
			w.failExpiry(t, f, moment, 1)
		}
	}
	w.expireWhileAway(t, f, server)
}

// failExpiry has the step that ends an expired account fail so many times. After taskAttempts, the task is given up, and
// the brokers record another one.
func (w *world) failExpiry(t *testing.T, f workflow, moment string, times int) {
	t.Helper()
	x := w.prepareUnrequested(t, f)
	var left atomic.Int32
	left.Store(int32(times))
	w.watch.orderAll(func(_ int, point string) testdrive.Word {
		if point != "expire: end account: "+moment || left.Add(-1) < 0 {
			return testdrive.GoOn
		}
		w.tally.failure()
		return testdrive.Fail
	})
	w.finishExpiry(t, &x, fmt.Sprintf("after the end of an account that failed %d times when it %s", times, moment))
	w.watch.orderAll(nil)
	if left.Load() > 0 {
		t.Errorf("the step failed %d times less than it should", left.Load())
	}
}

// expireWhileAway has a binding expire while its server does not answer.
func (w *world) expireWhileAway(t *testing.T, f workflow, server testdrive.Crashable) {
	t.Helper()
	x := w.prepareUnrequested(t, f)
	thaw := server.Freeze(t)
	if err := w.endTime(t, x); err != nil {
		t.Fatal(err)
	}
	testdrive.Eventually(t, patience, "a broker sees that the server does not answer", func() (failed bool) {
		err := w.tasks.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM task WHERE binding_id = $1 AND kind = 'expire' "+
			"AND state = 'in progress' AND last_error <> '')", x.binding.ID).Scan(&failed)
		return err == nil && failed
	})
	w.tally.failure()
	thaw()
	w.finishExpiry(t, &x, "after an end while the server was away")
}

// finishExpiry has a binding expire, and audits that and the deletion of its instance.
func (w *world) finishExpiry(t *testing.T, x *target, when string) {
	t.Helper()
	if err := w.expire(t, x, &death{died: make(chan int, 1)}); err != nil {
		t.Errorf("%s: %v", when, err)
	}
	testdrive.Eventually(t, patience, "the binding has ended", func() (ended bool) { // the platform is told before
		err := w.tasks.QueryRow(t.Context(), "SELECT NOT EXISTS (SELECT FROM binding WHERE id = $1)", x.binding.ID).
			Scan(&ended)
		return err == nil && ended
	})
	w.tally.operation()
	w.check(t, when)
	w.learnOfExpiry(t, x, when)
}

// learnOfExpiry has the platform learn at its own unbind that the binding has ended, and deletes the instance.
func (w *world) learnOfExpiry(t *testing.T, x *target, when string) {
	t.Helper()
	for _, status := range []int{http.StatusOK, http.StatusGone} {
		q := x.plan.unbind(x.instance.ID, x.binding.ID)
		if got, err := w.run(q); err != nil || got.Status != status {
			t.Errorf("%s, the unbind was answered %d: %s %v", when, got.Status, got.Raw, err)
		}
	}
	w.remove(t, x, when)
}

func (w *world) remove(t *testing.T, x *target, when string) {
	t.Helper()
	if err := w.delete(x); err != nil {
		t.Errorf("%s: %v", when, err)
	}
	w.check(t, when+", when the instance was deleted")
}

// cutUnrequested has a binding expire or its password replaced, and audits the result. The first broker that comes to
// the point dies there. It returns the points that were passed.
func (w *world) cutUnrequested(t *testing.T, f workflow, at point) []point {
	t.Helper()
	x := w.prepareUnrequested(t, f)
	d := &death{kind: f.kind, statements: true, at: at, died: make(chan int, 1)}
	w.watch.orderAll(d.decide)
	var err error
	if f.kind == expire {
		err = w.expire(t, &x, d)
	} else {
		err = w.rotate(t, &x, d)
	}
	w.awaitEnd(t, d)
	w.watch.orderAll(nil)
	if err != nil {
		t.Errorf("%s, killed at %v: %v", f, at, err)
	}
	w.tally.operation()
	when := fmt.Sprintf("after %s, killed at %v", f, at)
	w.check(t, when)
	if f.kind == expire {
		w.learnOfExpiry(t, &x, when)
	} else {
		w.remove(t, &x, when)
	}
	return d.passed()
}

// prepareUnrequested makes an instance with a binding, on whose view another one depends.
func (w *world) prepareUnrequested(t *testing.T, f workflow) target {
	t.Helper()
	x := target{workflow: f, instance: audit.Instance{ID: uuid.NewString(), PlanID: f.plan.id}}
	err := w.make(f.plan, false, &x.instance)
	if err == nil {
		x.binding, err = w.bindWith(f.plan, x.instance.ID, map[string]any{"ttl": "8h"})
	}
	if err == nil {
		x.before, err = w.bind(f.plan, x.instance.ID)
	}
	if err == nil {
		x.instance.Note = uuid.NewString()
		err = writeNote(t.Context(), x.binding.Credentials, x.instance.Note)
	}
	if err == nil && f.view {
		err = defineView(t.Context(), x.binding.Credentials)
	}
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	w.tell(x.instance)
	return x
}

// expire ends the time of the binding, and waits until the platform does not find it any more.
func (w *world) expire(t *testing.T, x *target, d *death) error {
	t.Helper()
	if err := w.endTime(t, *x); err != nil {
		return err
	}
	testdrive.Eventually(t, patience, "the binding is gone", func() bool {
		w.replaceDead(t, d)
		r, err := w.survivor().Send("GET", bindingPath(x.instance.ID, x.binding.ID), nil, nil)
		return err == nil && r.Status == http.StatusNotFound
	})
	x.binding.State = audit.Gone
	w.tellBinding(x.binding)
	return nil
}

// endTime ends the time of the binding.
func (w *world) endTime(t *testing.T, x target) error {
	_, err := w.tasks.Exec(t.Context(), "UPDATE binding SET expires_at = now() WHERE id = $1", x.binding.ID)
	return err
}

// rotate has an operator replace the password, and fetches the new one.
func (w *world) rotate(t *testing.T, x *target, d *death) error {
	t.Helper()
	ended := make(chan testdrive.Output, 1)
	go func() { ended <- testdrive.Run(t, w.env, "rotate-bindings", "--instance", x.instance.ID, "--apply") }()
	var out testdrive.Output
	testdrive.Eventually(t, patience, "the passwords are replaced", func() bool {
		w.replaceDead(t, d)
		select {
		case out = <-ended:
			return true
		case <-time.After(50 * time.Millisecond):
			return false
		}
	})
	if strings.Count(out.Stdout, "changed") != 2 {
		return fmt.Errorf("rotate-bindings says: %s %s", out.Stdout, out.Stderr)
	}
	return w.learnOfRotation(t, x)
}

// learnOfRotation fetches the new passwords, and expects that the old one works no more.
func (w *world) learnOfRotation(t *testing.T, x *target) error {
	leaked := x.binding.Credentials
	for _, b := range []*audit.Binding{&x.binding, &x.before} {
		r, err := w.survivor().Send("GET", bindingPath(x.instance.ID, b.ID), nil, nil)
		if err != nil {
			return err
		}
		if b.Credentials, err = audit.ReadCredentials(r.Body["credentials"]); err != nil {
			return fmt.Errorf("fetch the binding: %d %s: %w", r.Status, r.Raw, err)
		}
		w.tellBinding(*b)
	}
	db, err := leaked.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	if db.PingContext(t.Context()) == nil || leaked == x.binding.Credentials {
		return errors.New("the old password still works")
	}
	return nil
}
