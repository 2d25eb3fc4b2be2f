//go:build faults

package stage

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/audit"
	"mysql-broker/test/platform"
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
	platform.Workflow
	step, moment string
}

func (f failing) String() string { return f.Workflow.String() + ", " + f.step + ", " + f.moment }

// point is where the step fails: at one of the task, or of the launcher.
func (f failing) point() string {
	if f.moment == "begins" || f.moment == "done" {
		return f.Kind + ": " + f.step + ": " + f.moment
	}
	return f.step + ": " + f.moment
}

// always reports whether the step fails in each run: only the cleanup undoes what a provision, a bind, a restore in place
// and an upgrade have done, and deletes what a backup has written.
func (f failing) always() bool {
	switch f.Kind {
	case platform.Backup:
		return true
	case platform.Bind, platform.Restore:
		return f.moment == "done"
	case platform.Provision:
		return f.step == "create database" && f.moment == "done"
	}
	return f.step == "upgrade"
}

// failures lists the steps that fail.
func failures(t *testing.T) (all []failing) {
	shared, dedicated := platform.NamedPlan(t, "shared-small"), platform.NamedPlan(t, "dedicated-small")
	larger := platform.NamedPlan(t, "dedicated-large")
	provision, deprovision := platform.Provision, platform.Deprovision
	for _, f := range []failing{
		{Workflow: platform.Workflow{Kind: provision, Plan: shared}, step: "create database"},
		{Workflow: platform.Workflow{Kind: platform.Update, Plan: shared, To: platform.NamedPlan(t, "shared-large")},
			step: "limit connections"},
		{Workflow: platform.Workflow{Kind: platform.Bind, Plan: shared}, step: "create account"},
		{Workflow: platform.Workflow{Kind: platform.Unbind, Plan: shared}, step: "end account"},
		{Workflow: platform.Workflow{Kind: deprovision, Plan: shared, View: true}, step: "end accounts"},
		{Workflow: platform.Workflow{Kind: deprovision, Plan: shared, View: true}, step: "drop database"},
		{Workflow: platform.Workflow{Kind: deprovision, Plan: shared, View: true}, step: "drop accounts"},
		{Workflow: platform.Workflow{Kind: deprovision, Plan: shared, View: true, Keep: true}, step: "end accounts"},
		{Workflow: platform.Workflow{Kind: provision, Plan: shared, View: true, Keep: true}, step: "revive accounts"},
	} {
		for _, f.moment = range []string{"begins", "done"} {
			all = append(all, f)
		}
	}
	move := platform.Workflow{Kind: platform.Update, Plan: shared, To: dedicated, View: true}
	resize := platform.Workflow{Kind: platform.Update, Plan: dedicated, To: larger}
	launch := platform.Workflow{Kind: provision, Plan: dedicated}
	return append(all, []failing{
		{launch, "launch", "begins"}, {launch, "launch", "done"},
		{launch, "check login", "begins"}, {launch, "check login", "done"},
		{launch, "create database", "begins"}, {launch, "create database", "done"},
		{platform.Workflow{Kind: provision, Plan: platform.NamedPlan(t, "shared-async")}, "create database", "done"},
		{resize, "resize", "done"}, {resize, "upgrade", "copied"}, {resize, "limit connections", "done"},
		{platform.Workflow{Kind: deprovision, Plan: dedicated}, "destroy", "begins"},
		{platform.Workflow{Kind: provision, Plan: dedicated, Keep: true}, "revive accounts", "done"},
		{move, "launch", "done"}, {move, "copy", "done"}, {move, "freeze", "done"}, {move, "compare", "done"},
		// What is marked as finished is never removed: the record that it belongs to somebody may be lost. So these steps
		// fail when they begin.
		{move, "hand over", "begins"},
		{platform.Workflow{Kind: provision, Plan: shared, From: platform.Clone, View: true}, "finish", "begins"},
		{platform.Workflow{Kind: platform.Update, Plan: dedicated, To: shared}, "compare", "done"},
		{platform.Workflow{Kind: platform.Backup, Plan: shared}, "write", "done"},
		{platform.Workflow{Kind: provision, Plan: shared, From: platform.Restore}, "fill", "done"},
		{platform.Workflow{Kind: platform.Restore, Plan: shared, View: true}, "restore", "done"},
		{platform.Workflow{Kind: platform.Restore, Plan: shared}, "switch", "done"},
	}...)
}

// fail carries out an operation whose step fails, and deletes what is left as a platform does. Nothing of the operation
// is left then. The cleanup fails at first, unless atOnce is true; then brokers die at its points, each at a new one.
func (s *scene) fail(t *testing.T, f failing, atOnce bool) {
	x, err := s.Prepare(t.Context(), f.Workflow, s.host)
	require.NoError(t, err, "%s", f)
	order := &failureOrder{forward: f.point(), kind: f.Kind, cleanups: cleanupFailures,
		kills: newSample(t, 1)}
	switch {
	case atOnce:
		order.cleanups = 0
	case f.Plan.Async != "" || f.Copies():
		order.cleanups = slowCleanupFailures
	}
	victim, q := s.now, x.Request()
	victim.obey(order.decide)
	s.order = order.decide // for heirs
	r, err := victim.send(q.Method, q.Path, q.Body)
	answered := err == nil
	// While the cleanup fails, no broker dies. The request waits no longer than that.
	require.True(t, answered || atOnce && victim.alive.Err() != nil, "%s: %v", f, err)
	s.awaitEnd(t)
	s.order = nil
	s.now.obey(nil)
	s.killed += order.end(t)
	if answered {
		got, err := s.Conclude(q, r)
		assert.Error(t, err, "%s: answered %d: %s", f, got.Status, got.Raw)
		assert.True(t, sentence(got.String("description")), "%s: the description is no sentence: %q", f, got.Raw)
	}
	assert.NoError(t, s.afterFailure(&x, q), "%s", f)
	s.Check(t, "after "+f.String())
	if x.Instance.State == audit.Failed {
		x.Instance.State = audit.Exists // to be deleted too
	}
	s.clear(t, &x)
	s.Check(t, "after "+f.String()+" was deleted")
	s.ForgetGone()
	s.stopAfterFailure(t, victim)
}

// afterFailure does what platforms do: a failed deletion is sent again, and what could not be made is taken for gone.
func (s *scene) afterFailure(x *platform.Target, q platform.Request) error {
	switch q.Kind {
	case platform.Provision:
		x.Instance.State = audit.Failed
		s.Tell(x.Instance)
	case platform.Bind:
		x.Binding.State = audit.Gone
		s.TellBinding(x.Binding)
	case platform.Unbind, platform.Deprovision:
		return s.RunAndLearn(x, q)
	}
	return nil
}

// failureOrder says at which points a step fails or a broker dies.
type failureOrder struct {
	forward, kind string
	kills         *sample

	mu       sync.Mutex
	givenUp  bool
	cleanups int      // that are yet to fail
	passed   []string // points of the cleanup
	deaths   []string // at which brokers died
	ending   bool     // no broker dies any more
}

func (f *failureOrder) decide(point string) testdrive.Word {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.givenUp = f.givenUp || point == f.kind+": given up"
	switch {
	case f.ending:
	case !f.givenUp:
		if point == f.forward {
			return testdrive.Fail
		}
	case f.cleanups > 0 && isStep(f.kind, point):
		f.cleanups--
		return testdrive.Fail
	case f.cleanups == 0 && !slices.Contains(f.passed, point) && f.kills.take():
		f.passed, f.deaths = append(f.passed, point), append(f.deaths, point)
		return testdrive.Die
	default:
		f.passed = append(f.passed, point)
		f.ending = point == f.kind+": ending as failed"
	}
	return testdrive.GoOn
}

// end returns how many brokers died. It fails the test unless the end of the task was recorded.
func (f *failureOrder) end(t *testing.T) (died int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.True(t, f.ending, "the task did not fail; brokers died at %q", f.deaths)
	return len(f.deaths)
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
