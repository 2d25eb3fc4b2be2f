package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/platform"
	"mysql-broker/test/testdrive"
)

// death is what happens to the first broker that comes to a point of the launcher. Which broker that is, is up to chance:
// an operation in Kubernetes waits for the cluster again and again, and whichever broker is free goes on with it.
type death struct {
	mu    sync.Mutex
	kind  string // of the operation
	at    string // "" if no broker is to die
	seen  []string
	ended bool     // a broker came to the end of the operation
	died  chan int // the process
}

func (d *death) decide(pid int, point string) testdrive.Word {
	d.mu.Lock()
	defer d.mu.Unlock()
	if point == d.kind+": ended as succeeded" {
		d.ended = true
	}
	call, _, _ := strings.Cut(point, ": ")
	if !slices.Contains([]string{"launch", "resize", "suspend", "upgrade", "destroy"}, call) ||
		slices.Contains(d.seen, point) { // how often it waits is up to chance
		return testdrive.GoOn
	}
	d.seen = append(d.seen, point)
	if point != d.at {
		return testdrive.GoOn
	}
	d.died <- pid
	return testdrive.Die
}

// cutShort carries out an operation and audits its result. The first broker that comes to the point dies there. It
// returns the points that were passed.
func (w *world) cutShort(t *testing.T, f platform.Workflow, at string) []string {
	t.Helper()
	what := fmt.Sprintf("%s, killed at %q", f, at)
	host := audit.Instance{ID: "none"}
	x, err := w.Prepare(t.Context(), f, host)
	require.NoError(t, err, what)
	d := &death{kind: f.Kind, at: at, died: make(chan int, 1)}
	w.faults.Decide(d.decide)
	q := x.Request()
	w.Send = func(method, path string, body any) (testdrive.Response, error) {
		return w.insist(t, d, method, path, body)
	}
	got, err := w.Run(q)
	w.Send = w.send
	if err == nil {
		err = w.Learn(&x, q, got)
	}
	require.NoError(t, err, what)
	testdrive.Eventually(t, limits.Stuck, "a broker comes to the end of the operation", func() bool { // after the last poll
		w.replaceDead(t, d)
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.died) == 0 && d.ended
	})
	w.faults.GoOn()
	assert.False(t, at != "" && !slices.Contains(d.seen, at), "%s: no broker came there", what)
	w.Check(t, "after "+what)
	assert.NoError(t, w.Clear(&x, host), what)
	w.ForgetGone()
	return d.seen
}

// insist repeats a request until a broker answers that does not die meanwhile.
func (w *world) insist(t *testing.T, d *death, method, path string, body any) (r testdrive.Response, err error) {
	for deadline := time.Now().Add(limits.Stuck); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		w.replaceDead(t, d)
		if r, err = w.send(method, path, body); err == nil && !testdrive.AsksToRepeat(r) {
			return r, nil
		}
	}
	return r, errors.Join(err, errors.New("no broker has answered in time"))
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
	default:
	}
}
