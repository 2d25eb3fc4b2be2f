package chaos

import (
	"errors"
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

// sparseInKubernetes is the step with which the forms pick points of operations in Kubernetes, which take seconds each.
func sparseInKubernetes() int {
	if long() {
		return 6
	}
	return 16
}

// testKubernetesKills kills brokers in operations on dedicated servers in Kubernetes. There an operation waits for the
// cluster again and again, and whichever broker is free goes on with it. So there is one operation at a time, and
// whichever broker comes to the point dies.
func testKubernetesKills(t *testing.T, c chaos) {
	onKubernetes.Start(t)
	w := newKubernetesWorld(t, c.flavour, c.tally, platform.Retaining(t))
	all := slices.DeleteFunc(platform.Workflows(t), func(f platform.Workflow) bool { return !f.Launches() || f.Copies() && !long() })
	for n, f := range all {
		points := w.cutShort(t, f, platform.Point{})
		t.Logf("%s passes %d points: %v", f, len(points), points)
		w.tally.pointsPassed(len(points))
		for at, p := range points {
			if (at+5*n)%sparseInKubernetes() == c.share%sparseInKubernetes() {
				w.cutShort(t, f, p)
			}
		}
	}
}

// death is what happens to a broker at a point, once.
type death struct {
	mu         sync.Mutex
	kind       string // of the operation
	statements bool   // those of SQL are points too
	at         platform.Point
	seen       []platform.Point
	died       chan int // the process
}

func (d *death) decide(pid int, name string) testdrive.Word {
	step, _, _ := strings.Cut(name, ": ")
	statement := step == "before" || step == "after"
	if !slices.Contains([]string{d.kind, "launch", "resize", "suspend", "destroy"}, step) && !(d.statements && statement) ||
		strings.HasSuffix(name, ": KILL ?") {
		return testdrive.GoOn
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	here := platform.Point{Name: name, Nth: 1}
	if slices.Contains(d.seen, here) { // how often it waits is up to chance
		return testdrive.GoOn
	}
	d.seen = append(d.seen, here)
	if here != d.at {
		return testdrive.GoOn
	}
	d.died <- pid
	return testdrive.Die
}

// cutShort carries out an operation and audits its result. The first broker that comes to the point dies there. It
// returns the points that were passed.
func (w *world) cutShort(t *testing.T, f platform.Workflow, at platform.Point) []platform.Point {
	t.Helper()
	host := audit.Instance{ID: "none"}
	x, err := w.Prepare(t.Context(), f, host)
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	d := &death{kind: f.Kind, at: at, died: make(chan int, 1)}
	w.watch.orderAll(d.decide)
	q := x.Request()
	got, err := w.insist(t, q, d)
	if err == nil {
		err = w.Learn(&x, q, got)
	}
	w.awaitEnd(t, d)
	w.watch.orderAll(nil)
	if err != nil {
		t.Errorf("%s, killed at %v: %v", f, at, err)
	}
	w.Check(t, fmt.Sprintf("after %s, killed at %v", f, at))
	if err := w.Clear(&x, host); err != nil {
		t.Errorf("%s: %v", f, err)
	}
	return d.passed()
}

func (d *death) passed() []platform.Point {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.seen)
}

// insist sends a request, and polls, as a platform that repeats what is not answered.
func (w *world) insist(t *testing.T, q platform.Request, d *death) (got platform.Outcome, err error) {
	var accepted testdrive.Response
	for deadline := time.Now().Add(limits.Stuck); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		w.replaceDead(t, d)
		send := func() (testdrive.Response, error) { return w.survivor().Send(q.Method, q.Path, q.Body, nil) }
		if accepted.Status != 0 {
			send = func() (testdrive.Response, error) {
				return w.survivor().Send("GET", platform.InstancePath(q.InstanceID)+"/last_operation?operation="+
					accepted.String("operation"), nil, nil)
			}
		}
		r, err := send()
		switch {
		case err != nil || testdrive.AsksToRepeat(r): // its broker is about to die, or has just died
		case r.Status == http.StatusAccepted:
			accepted = r
			w.Counts.Operations.Add(1)
		case accepted.Status == 0 || r.Status == http.StatusGone:
			return w.Conclude(q, r)
		case r.Status != http.StatusOK || r.String("state") == "failed":
			return platform.Outcome{Response: r, Failed: true}, fmt.Errorf("poll: %d %s", r.Status, r.Raw)
		case r.String("state") == "succeeded":
			return platform.Outcome{Response: r}, nil
		}
	}
	return platform.Outcome{}, errors.New("it has not ended in time")
}

// replaceDead starts a broker instead of one that has died, if one has.
func (w *world) replaceDead(t *testing.T, d *death) {
	t.Helper()
	select {
	case pid := <-d.died:
		n := slices.IndexFunc(w.survivors[:], func(b *testdrive.Broker) bool { return b.PID() == pid })
		w.survivors[n].Wait(t)
		w.survivors[n] = testdrive.Start(t, w.env)
		testdrive.ExpireLeases(t, w.Tasks)
		w.tally.kill()
	default:
	}
}

// awaitEnd returns when the last point has been passed, which may be after the platform's last poll.
func (w *world) awaitEnd(t *testing.T, d *death) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, "a broker comes to the end of the operation", func() bool {
		w.replaceDead(t, d)
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.died) == 0 && slices.ContainsFunc(d.seen, func(p platform.Point) bool {
			return p.Name == d.kind+": ended as succeeded"
		})
	})
	if d.at != (platform.Point{}) && !slices.Contains(d.seen, d.at) {
		t.Errorf("no broker came to %v", d.at)
	}
}
