package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
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
// the point dies.
func testUnrequestedKills(t *testing.T, c chaos) {
	w := newWorld(t, c.flavour, c.tally, nil)
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
	w.check(t, fmt.Sprintf("after %s, killed at %v", f, at))
	if f.kind == expire { // the platform learns of it at its own unbind
		for _, status := range []int{http.StatusOK, http.StatusGone} {
			q := f.plan.unbind(x.instance.ID, x.binding.ID)
			if got, err := w.run(q); err != nil || got.Status != status {
				t.Errorf("%s, killed at %v: the unbind was answered %d: %s %v", f, at, got.Status, got.Raw, err)
			}
		}
	}
	if err := w.delete(&x); err != nil {
		t.Errorf("%s: %v", f, err)
	}
	w.check(t, fmt.Sprintf("after %s was deleted", f))
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
		err = audit.Write(t.Context(), x.binding.Credentials, x.instance.Note)
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
	if _, err := w.tasks.Exec(t.Context(), "UPDATE binding SET expires_at = now() WHERE id = $1", x.binding.ID); err != nil {
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

// rotate has an operator replace the password, and fetches the new one.
func (w *world) rotate(t *testing.T, x *target, d *death) error {
	t.Helper()
	leaked := x.binding.Credentials
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
