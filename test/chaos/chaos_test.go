// Package chaos kills brokers, which are processes, where launchers work on processes, files and pods. It audits what is
// left. All else that a kill can cut short, test/stage plays.
package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/audit"
	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// onKubernetes is the cluster of the tests that need one.
var onKubernetes cluster.Shared

func TestMain(m *testing.M) { servers.Main(m, onKubernetes.Close) }

// sparseInKubernetes is how many points there are for each at which a broker is killed in Kubernetes, where operations
// take longer. The launcher's own tests cut it off at all of them.
const sparseInKubernetes = 2

func TestChaos(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		t.Run("processes", func(t *testing.T) {
			t.Parallel()
			private := testdrive.Private(t, s.Flavour)
			env := testdrive.Environment(t, private)
			newWorld(t, private, env, testdrive.Inspectors(env)).killEverywhere(t, 1)
		})
		t.Run("Kubernetes", func(t *testing.T) {
			t.Parallel()
			onKubernetes.Start(t)
			private := testdrive.Private(t, s.Flavour)
			env, inspectors := testdrive.OnKubernetes(t, testdrive.Environment(t, private), s.Flavour, &onKubernetes)
			newWorld(t, private, env, inspectors).killEverywhere(t, sparseInKubernetes)
		})
	})
}

// killEverywhere kills brokers at every point of the launcher, or at one of so many, in every workflow that starts,
// changes or removes a dedicated server.
func (w *world) killEverywhere(t *testing.T, sparse int) {
	t.Helper()
	next := rand.IntN(sparse)
	for _, f := range platform.Workflows(t) {
		if !f.Launches() {
			continue
		}
		points := w.cutShort(t, f, "")
		t.Logf("%s passes %d points: %q", f, len(points), points)
		for _, p := range points {
			if next++; next%sparse == 0 {
				w.cutShort(t, f, p)
			}
		}
	}
}

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
	what := fmt.Sprintf("%s, killed at %q", f, at)
	host := audit.Instance{ID: "none"}
	x, err := w.Prepare(t.Context(), f, host)
	require.NoError(t, err, what)
	d := &death{kind: f.Kind, at: at, died: make(chan int, 1)}
	w.faults.Decide(d.decide)
	q := x.Request()
	w.Lost = func() bool { w.replaceDead(t, d); return true }
	require.NoError(t, w.RunAndLearn(&x, q), what)
	w.Lost = nil
	testdrive.Eventually(t, "a broker comes to the end of the operation", func() bool { // after the last poll
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

// replaceDead starts a broker instead of one that has died, if one has.
func (w *world) replaceDead(t *testing.T, d *death) {
	select {
	case pid := <-d.died:
		n := slices.IndexFunc(w.survivors[:], func(b *testdrive.Broker) bool { return b.PID() == pid })
		w.survivors[n].Wait(t)
		w.survivors[n] = testdrive.Start(t, w.env)
		testdrive.ExpireLeases(t, w.Tasks)
	default:
	}
}

// pollEach is how often platforms poll, and try again.
const pollEach = 100 * time.Millisecond

// world is a platform with its brokers: two that carry out what it asks for, and any number of others.
type world struct {
	*platform.World
	env       map[string]string
	survivors [2]*testdrive.Broker
	faults    *testdrive.Faults
	turn      atomic.Int32 // which survivor gets the next request
}

// newWorld starts the brokers, with a shared server of their own.
func newWorld(t *testing.T, private servers.MySQL, env map[string]string, inspectors map[string]audit.Inspector) *world {
	w := &world{env: env, World: &platform.World{PollEach: pollEach, Tasks: testdrive.OpenTasks(t, env).Pool}}
	w.Send = w.send
	w.env["CATALOG"] = testdrive.RetainingCatalog(t, "shared-small", "dedicated-small")
	w.env["BACKUP_STORE"] = "file://" + t.TempDir()
	if w.env["LAUNCHER"] == "process" {
		w.Later = testdrive.OfferUpgrade(t, w.env).Version
	}
	w.faults = testdrive.NewFaults(t, w.env)
	w.Audit = testdrive.AuditOf(t, w.env, private.Admin(t))
	w.Audit.Launchers = inspectors
	for n := range w.survivors {
		w.survivors[n] = testdrive.Start(t, w.env)
	}
	return w
}

// send sends to the survivors by turns.
func (w *world) send(method, path string, body any) (testdrive.Response, error) {
	return w.survivors[int(w.turn.Add(1))%len(w.survivors)].Send(method, path, body, nil)
}
