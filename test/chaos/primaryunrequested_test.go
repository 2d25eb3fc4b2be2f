package chaos

import (
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/platform"
	"mysql-broker/test/testdrive"
)

// crowd is tasks of one kind that no platform requests. Each passes the same points; at each of the wanted ones, the
// task that comes there first waits until the primary is dead.
type crowd struct {
	kind string
	goOn chan struct{}

	mu      sync.Mutex
	wanted  []string
	seen    []string
	waiting int
}

func (c *crowd) pass(name string) testdrive.Word {
	step, _, _ := strings.Cut(name, ": ")
	if !slices.Contains([]string{c.kind, "before", "after"}, step) || strings.HasSuffix(name, ": KILL ?") {
		return testdrive.GoOn
	}
	c.mu.Lock()
	if !slices.Contains(c.seen, name) {
		c.seen = append(c.seen, name)
	}
	n := slices.Index(c.wanted, name)
	if n >= 0 {
		c.wanted = slices.Delete(c.wanted, n, n+1)
		c.waiting++
	}
	c.mu.Unlock()
	if n >= 0 {
		<-c.goOn
	}
	return testdrive.GoOn
}

// meetUnrequested kills the primary at every point of the end of expired bindings, and of the replacement of passwords.
func (w *clusterWorld) meetUnrequested(t *testing.T) {
	t.Helper()
	for _, f := range []platform.Workflow{
		{Kind: platform.Expire, Plan: platform.NamedPlan(t, "shared-small"), View: true},
		{Kind: platform.Rotate, Plan: platform.NamedPlan(t, "shared-small"), View: true},
	} {
		points, again := w.gather(t, f, nil), w.gather(t, f, nil)
		points = slices.DeleteFunc(points, func(p string) bool { return !slices.Contains(again, p) })
		t.Logf("%s passes %d points", f, len(points))
		for some := range slices.Chunk(points, heldAtOnce) {
			w.gather(t, f, some)
		}
	}
}

// gather has a task come to each of the points, or lets one pass all. It returns the points that were passed.
func (w *clusterWorld) gather(t *testing.T, f platform.Workflow, points []string) []string {
	t.Helper()
	c := &crowd{kind: f.Kind, wanted: slices.Clone(points), goOn: make(chan struct{})}
	var targets []*platform.Target
	var open [][]*sql.Conn
	for range max(1, len(points)) {
		x, err := w.PrepareUnrequested(t.Context(), f)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		targets, open = append(targets, &x), append(open, w.openOnEach(t, x.Binding.Credentials))
	}
	w.watch.orderAll(func(_ int, name string) testdrive.Word { return c.pass(name) })
	commands := w.begin(t, targets)
	comeBack := func() {}
	killed := time.Now()
	if len(points) > 0 {
		w.awaitCrowd(t, c, len(points))
		killed = time.Now()
		comeBack = w.killPrimary(t)
	}
	close(c.goOn)
	commands()
	for _, x := range targets {
		testdrive.Eventually(t, limits.Stuck, "the task has ended", func() (ended bool) {
			err := w.Tasks.QueryRow(t.Context(), "SELECT NOT EXISTS (SELECT FROM task WHERE binding_id = $1 AND "+
				"state = 'in progress') AND EXISTS (SELECT FROM task WHERE binding_id = $1 AND kind = $2)", x.Binding.ID,
				f.Kind).Scan(&ended)
			return err == nil && ended
		})
		if len(points) > 0 {
			w.took = append(w.took, time.Since(killed).Round(100*time.Millisecond))
		}
		w.Counts.Operations.Add(1)
	}
	w.watch.orderAll(nil)
	comeBack()
	when := fmt.Sprintf("%s, primary killed at %v", f, points)
	for n, x := range targets {
		expectEnded(t, when, open[n])
		w.learnOfUnrequested(t, x, when)
	}
	w.Check(t, when)
	for _, x := range targets {
		if err := w.Delete(x); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// begin has bindings expire, or their passwords replaced. It returns what waits for the commands that do so.
func (w *clusterWorld) begin(t *testing.T, targets []*platform.Target) (wait func()) {
	t.Helper()
	var running sync.WaitGroup
	for _, x := range targets {
		if x.Kind == platform.Expire {
			if err := w.EndTime(t.Context(), *x); err != nil {
				t.Fatal(err)
			}
			continue
		}
		running.Go(func() {
			out := testdrive.Run(t, w.env, "rotate-bindings", "--instance", x.Instance.ID, "--apply")
			if strings.Count(out.Stdout, "changed") != 2 {
				t.Errorf("rotate-bindings says: %s %s", out.Stdout, out.Stderr)
			}
		})
	}
	return running.Wait
}

func (w *clusterWorld) awaitCrowd(t *testing.T, c *crowd, all int) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, "a task waits at each point", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.waiting == all
	})
}

// learnOfUnrequested has the platform learn what has become of a binding.
func (w *clusterWorld) learnOfUnrequested(t *testing.T, x *platform.Target, when string) {
	t.Helper()
	if x.Kind == platform.Rotate {
		if err := w.LearnOfRotation(t.Context(), x); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		return
	}
	x.Binding.State = audit.Gone
	w.TellBinding(x.Binding)
	if got, err := w.Run(x.Plan.Unbind(x.Instance.ID, x.Binding.ID)); err != nil || got.Status != http.StatusOK {
		t.Errorf("%s, the unbind was answered %d: %s %v", when, got.Status, got.Raw, err)
	}
}
