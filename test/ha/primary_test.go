package ha

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/audit"
	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

const (
	// heldAtOnce is how many operations wait at points of theirs when a primary is killed, each in a broker of its own.
	heldAtOnce = 12
	// sparseInClusters is how many points there are for each at which a primary is killed. Which of them is up to chance.
	sparseInClusters = 4
	// attempts is how often an operation begins again to meet a point that another broker passed, which had claimed the task.
	attempts = 4
	// meetingTime is how long operations wait for each other before the primary is killed.
	meetingTime = 30 * time.Second
)

// heldWorld is a clusterWorld with more brokers, each of which carries out one operation at a time.
type heldWorld struct {
	*clusterWorld
	faults *testdrive.Faults
	actors []*testdrive.Broker
}

// TestPrimaryKills kills the primary of a cluster between steps and statements of every workflow that works on it, with
// sessions of the account on every node. Several operations wait at one point each; then the primary of all of them
// dies.
func TestPrimaryKills(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		w := newHeldWorld(t, s.Flavour)
		workflows := slices.DeleteFunc(platform.Workflows(t), func(f platform.Workflow) bool {
			return f.Plan.Dedicated() && (f.To.Name == "" || f.To.Dedicated())
		})
		w.meet(t, w.points(t, workflows))
	})
}

func newHeldWorld(t *testing.T, flavour string) *heldWorld {
	w := &heldWorld{clusterWorld: inFrontOf(t, testdrive.StartCluster(t, flavour))}
	w.env["CATALOG"] = testdrive.RetainingCatalog(t, "shared-small", "dedicated-small")
	w.env["BACKUP_STORE"] = "file://" + t.TempDir()
	w.faults = testdrive.NewFaults(t, w.env)
	for range heldAtOnce {
		w.actors = append(w.actors, testdrive.Start(t, w.env))
	}
	w.world = newWorld(t, testdrive.Start(t, w.env), testdrive.Start(t, w.env))
	w.Tasks = testdrive.OpenTasks(t, w.env).Pool
	return w
}

// wait is the word of the journey to the one who leads it.
const wait testdrive.Word = "wait"

// held is an operation that waits at a point of its own until the primary is dead.
type held struct {
	platform.Workflow
	end    platform.Point // where it waits; nowhere if it is empty
	target platform.Target
	open   []*sql.Conn // sessions of its account, one on each node
	tries  int

	journey *platform.Journey
	arrived chan struct{} // closed when it waits
	ended   chan struct{} // closed when it is done
}

func (h *held) waits() bool { return isClosed(h.arrived) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// points lists where operations are to wait: at some of the points that each passed twice when nothing happened to it.
// Those of different workflows take turns.
func (w *heldWorld) points(t *testing.T, workflows []platform.Workflow) (all []*held) {
	t.Helper()
	var clean []*held
	for _, f := range slices.Concat(workflows, workflows) {
		clean = append(clean, &held{Workflow: f})
	}
	for wave := range slices.Chunk(clean, len(w.actors)) {
		w.wave(t, wave)
	}
	most := 0
	points := make([][]platform.Point, len(workflows))
	for n, f := range workflows {
		points[n] = platform.InBoth(clean[n].journey.Points(), clean[n+len(workflows)].journey.Points())
		t.Logf("%s passes %d points", f, len(points[n]))
		most = max(most, len(points[n]))
	}
	next := rand.IntN(sparseInClusters)
	for at := range most {
		for n, f := range workflows {
			if at >= len(points[n]) {
				continue
			}
			if next++; next%sparseInClusters == 0 {
				all = append(all, &held{Workflow: f, end: points[n][at]})
			}
		}
	}
	return all
}

// meet has every operation wait at its point for the death of the primary. One that another broker carried out, or that
// did not come to the point, begins again.
func (w *heldWorld) meet(t *testing.T, todo []*held) {
	t.Helper()
	for len(todo) > 0 {
		wave := todo[:min(len(w.actors), len(todo))]
		todo = todo[len(wave):]
		w.wave(t, wave)
		for _, h := range wave {
			if h.waits() {
				continue
			}
			if h.tries++; h.tries == attempts {
				t.Errorf("%s: no broker came to %v", h, h.end)
			} else {
				todo = append(todo, h)
			}
		}
	}
}

// wave carries out operations at the same time. When each waits at its point, or has ended, the primary is killed.
func (w *heldWorld) wave(t *testing.T, wave []*held) {
	goOn := make(chan struct{})
	prepared := w.each(t, wave, func(h *held) (err error) {
		h.arrived, h.ended = make(chan struct{}), make(chan struct{})
		h.journey = platform.NewJourney(h.end, func() testdrive.Word { return wait })
		h.target, err = w.Prepare(t.Context(), h.Workflow, audit.Instance{})
		return err
	})
	if !prepared {
		return
	}
	acting := map[int]*held{} // by the process of its broker
	for n, h := range wave {
		if h.Kind == platform.Unbind || h.Kind == platform.Deprovision && h.target.Binding.State == audit.Exists {
			_, h.open = w.OpenOnEach(t, h.target.Binding.Credentials)
		}
		acting[w.actors[n].PID()] = h
	}
	w.faults.Decide(func(pid int, point string) testdrive.Word {
		if h := acting[pid]; h != nil && !isClosed(h.ended) && h.journey.Pass(point) == wait {
			close(h.arrived)
			<-goOn
		}
		return testdrive.GoOn
	})
	errs := make([]error, len(wave))
	for n, h := range wave {
		go func() {
			defer close(h.ended)
			errs[n] = w.carryOut(h, w.actors[n])
		}()
	}
	comeBack := func() {}
	if w.awaitMeeting(wave) {
		comeBack = w.killPrimary(t)
	}
	close(goOn)
	for n, h := range wave {
		<-h.ended
		assert.NoError(t, errs[n], "%s, primary killed at %v", h, h.end)
	}
	w.faults.GoOn()
	comeBack()
	for _, h := range wave {
		expectEnded(t, fmt.Sprintf("%s, primary killed at %v", h, h.end), h.open)
		h.open = nil
	}
	w.compare(t)
	w.each(t, wave, func(h *held) error { return w.Clear(&h.target, audit.Instance{ID: "none"}) })
}

func (w *heldWorld) each(t *testing.T, wave []*held, do func(*held) error) (succeeded bool) {
	errs := make([]error, len(wave))
	var running sync.WaitGroup
	for n, h := range wave {
		running.Go(func() { errs[n] = do(h) })
	}
	running.Wait()
	for n, h := range wave {
		assert.NoError(t, errs[n], "%s, %v", h, h.end)
	}
	return errors.Join(errs...) == nil
}

// awaitMeeting waits until each operation waits at its point or has ended. It reports whether any waits.
func (w *heldWorld) awaitMeeting(wave []*held) bool {
	late, cancel := context.WithTimeout(context.Background(), meetingTime)
	defer cancel()
	for _, h := range wave {
		select {
		case <-h.arrived:
		case <-h.ended:
		case <-late.Done():
		}
	}
	return slices.ContainsFunc(wave, (*held).waits)
}

// carryOut has a broker carry out the operation. The platform repeats what is answered by 5xx.
func (w *heldWorld) carryOut(h *held, by *testdrive.Broker) error {
	q := h.target.Request()
	r, err := by.Send(q.Method, q.Path, q.Body, nil)
	if err != nil {
		return err
	}
	if testdrive.AsksToRepeat(r) {
		return w.RunAndLearn(&h.target, q)
	}
	return w.ConcludeAndLearn(&h.target, q, r)
}

// killPrimary kills the primary, and has the proxy follow. comeBack starts the node again, and waits until it is a member.
func (w *heldWorld) killPrimary(t *testing.T) (comeBack func()) {
	old := w.used(t)
	w.Nodes[old].Kill(t)
	var following sync.WaitGroup
	following.Go(func() { w.follow(t, old) })
	return func() {
		following.Wait()
		w.Start(t, old, false)
		w.AwaitComplete(t)
	}
}

// used returns the node that is to die: the primary, and with Galera the one that most sessions of brokers are on.
func (w *heldWorld) used(t *testing.T) (node int) {
	t.Helper()
	if w.Flavour == mysqld.MySQL {
		return w.Primary(t)
	}
	most := -1
	for n, one := range w.Nodes {
		var sessions int
		require.NoError(t, one.Query(t,
			"SELECT COUNT(*) FROM information_schema.processlist WHERE user = '"+one.BrokerUser+"'", &sessions))
		if sessions > most {
			node, most = n, sessions
		}
	}
	return node
}

// expectEnded expects that no session lives: those are on one node each.
func expectEnded(t *testing.T, when string, open []*sql.Conn) {
	for n, conn := range open {
		_, err := conn.ExecContext(context.Background(), "SELECT 1")
		assert.Error(t, err, "%s: a session of the account lives on node %d", when, n+1)
		_ = conn.Close() // it is broken
	}
}
