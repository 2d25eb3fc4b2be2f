package chaos

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"mysql-broker/test/audit"
	"mysql-broker/test/testdrive"
)

// How often a cleanup fails: while a request waits, more often than it is tried then.
const (
	cleanupFailures     = 4
	slowCleanupFailures = 2
)

// failing is a step of a workflow that fails at each try, when it begins or when it is done. Then the cleanup fails
// some times.
type failing struct {
	workflow
	step, moment string
}

func (f failing) String() string { return f.workflow.String() + ", " + f.step + ", " + f.moment }

// Whatever step of an operation fails, nothing of the operation is left.
func testCleanup(t *testing.T, c chaos) {
	shared, dedicated := planNamed(t, "shared-small"), planNamed(t, "dedicated-small")
	steps := []failing{
		{workflow: workflow{kind: provision, plan: shared}, step: "create database"},
		{workflow: workflow{kind: update, plan: shared, to: planNamed(t, "shared-large")}, step: "limit connections"},
		{workflow: workflow{kind: bind, plan: shared}, step: "create account"},
		{workflow: workflow{kind: unbind, plan: shared}, step: "end account"},
		{workflow: workflow{kind: deprovision, plan: shared, view: true}, step: "end accounts"},
		{workflow: workflow{kind: deprovision, plan: shared, view: true}, step: "drop database"},
		{workflow: workflow{kind: deprovision, plan: shared, view: true}, step: "drop accounts"},
		{workflow: workflow{kind: deprovision, plan: shared, view: true, keep: true}, step: "end accounts"},
		{workflow: workflow{kind: provision, plan: shared, view: true, keep: true}, step: "revive accounts"},
	}
	// Those that go on in the background take half a minute each, for the pauses between their attempts.
	move := workflow{kind: update, plan: shared, to: dedicated, view: true}
	slow := []failing{
		{workflow: workflow{kind: provision, plan: dedicated}, step: "launch", moment: "done"},
		{workflow: workflow{kind: provision, plan: dedicated}, step: "check login", moment: "begins"},
		{workflow: workflow{kind: provision, plan: dedicated}, step: "create database", moment: "done"},
		{workflow: workflow{kind: provision, plan: planNamed(t, "shared-async")}, step: "create database", moment: "done"},
		{workflow: workflow{kind: update, plan: dedicated, to: planNamed(t, "dedicated-large")}, step: "resize",
			moment: "done"},
		{workflow: workflow{kind: deprovision, plan: dedicated}, step: "destroy", moment: "begins"},
		{workflow: workflow{kind: provision, plan: dedicated, keep: true}, step: "revive accounts", moment: "done"},
		{workflow: workflow{kind: provision, plan: dedicated}, step: "launch", moment: "begins"},
		{workflow: workflow{kind: provision, plan: dedicated}, step: "create database", moment: "begins"},
		{workflow: workflow{kind: provision, plan: dedicated}, step: "check login", moment: "done"},
		{workflow: workflow{kind: update, plan: dedicated, to: planNamed(t, "dedicated-large")},
			step: "limit connections", moment: "done"},
		{workflow: move, step: "launch", moment: "done"},
		{workflow: move, step: "copy", moment: "done"},
		{workflow: move, step: "freeze", moment: "done"},
		{workflow: move, step: "compare", moment: "done"},
		// What is marked as finished is never removed: the record that it belongs to somebody may be lost. So these steps
		// fail when they begin.
		{workflow: move, step: "hand over", moment: "begins"},
		{workflow: workflow{kind: provision, plan: shared, from: clone, view: true}, step: "finish", moment: "begins"},
		{workflow: workflow{kind: update, plan: dedicated, to: shared}, step: "compare", moment: "done"},
		{workflow: workflow{kind: backup, plan: shared}, step: "write", moment: "done"},
		{workflow: workflow{kind: provision, plan: shared, from: restore}, step: "fill", moment: "done"},
		{workflow: workflow{kind: restore, plan: shared, view: true}, step: "restore", moment: "done"},
		{workflow: workflow{kind: restore, plan: shared}, step: "thaw", moment: "done"},
	}
	t.Run("in the request", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, c.flavour, c.tally, retaining(t))
		for _, f := range steps {
			for _, f.moment = range []string{"begins", "done"} {
				w.fail(t, f)
			}
		}
	})
	for n, f := range slow {
		if !long() && n != c.half {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			newWorld(t, c.flavour, c.tally, retaining(t)).fail(t, f)
		})
	}
}

// fail carries out an operation whose step fails, and deletes what is left as a platform does.
func (w *world) fail(t *testing.T, f failing) {
	t.Helper()
	host := audit.Instance{ID: "none"}
	x, err := w.prepare(t.Context(), f.workflow, host)
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	order := &failures{forward: f.kind + ": " + f.step + ": " + f.moment, kind: f.kind, tally: w.tally,
		cleanups: cleanupFailures}
	if f.plan.async != "" || f.copies() {
		order.cleanups = slowCleanupFailures
	}
	w.watch.orderAll(func(_ int, point string) testdrive.Word { return order.decide(point) })
	q := x.request()
	r, err := w.survivor().Send(q.method, q.path, q.body, nil)
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	got, err := w.conclude(q, r)
	if err == nil && !got.failed {
		t.Errorf("%s: answered %d: %s", f, got.Status, got.Raw)
	}
	if !sentence(got.String("description")) {
		t.Errorf("%s: the description is no sentence: %q", f, got.Raw)
	}
	testdrive.Eventually(t, patience, "the cleanup ends", func() bool {
		left, err := w.latestTask(t.Context(), q)
		return err == nil && left.state != "in progress"
	})
	w.watch.orderAll(nil)
	if err := w.afterFailure(&x, q); err != nil {
		t.Errorf("%s: %v", f, err)
	}
	w.check(t, "after "+f.String())
	if x.instance.State == audit.Failed {
		x.instance.State = audit.Exists // to be deleted too
	}
	if err := w.clear(&x, host); err != nil {
		t.Errorf("%s: %v", f, err)
	}
	w.check(t, "after "+f.String()+" was deleted")
}

// afterFailure does what platforms do: a failed deletion is sent again, and what could not be made is taken for gone.
func (w *world) afterFailure(x *target, q request) error {
	switch q.kind {
	case provision:
		x.instance.State = audit.Failed
		w.tell(x.instance)
	case bind:
		x.binding.State = audit.Gone
		w.tellBinding(x.binding)
	case unbind, deprovision:
		got, err := w.run(q)
		if err != nil {
			return err
		}
		return w.learn(x, q, got)
	}
	return nil
}

// failures says which points fail.
type failures struct {
	forward, kind string
	tally         *tally

	mu       sync.Mutex
	givenUp  bool
	cleanups int // that are yet to fail
}

func (f *failures) decide(point string) testdrive.Word {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case point == f.kind+": given up":
		f.givenUp = true
	case !f.givenUp && point == f.forward:
		f.tally.failure()
		return testdrive.Fail
	case f.givenUp && isStep(f.kind, point) && f.cleanups > 0:
		f.cleanups--
		f.tally.failure()
		return testdrive.Fail
	}
	return testdrive.GoOn
}

// isStep reports whether a point is the begin or end of a step.
func isStep(kind, point string) bool {
	return strings.HasPrefix(point, kind+": ") &&
		slices.ContainsFunc([]string{": begins", ": done"}, func(end string) bool { return strings.HasSuffix(point, end) })
}

// sentence reports whether a text is one for users.
func sentence(text string) bool {
	return strings.HasSuffix(text, ".") && strings.ToUpper(text[:1]) == text[:1] && strings.Contains(text, " ")
}
