package ha

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"mysql-broker/test/audit"
	"mysql-broker/test/testdrive"
)

// operation is one that the primary is killed in.
type operation struct {
	name    string
	prepare func(w *clusterWorld, x *subject) error
	do      func(w *clusterWorld, x *subject) error
}

// subject is what an operation works on.
type subject struct {
	instance, binding string
	app               audit.Credentials
	plan              string
}

var operations = []operation{
	{"unbind", (*clusterWorld).makeBound, func(w *clusterWorld, x *subject) error {
		return w.unbind(x.instance, x.binding)
	}},
	{"bind", (*clusterWorld).make, func(w *clusterWorld, x *subject) (err error) {
		x.app, err = w.bind(x.instance, x.binding)
		return err
	}},
	{"provision", nil, func(w *clusterWorld, x *subject) error { return w.provision(x.instance) }},
	{"update", (*clusterWorld).makeBound, func(w *clusterWorld, x *subject) error {
		x.plan = w.large
		return w.update(x.instance)
	}},
	{"deprovision", (*clusterWorld).makeBound, func(w *clusterWorld, x *subject) error {
		return w.deprovision(x.instance, x.plan)
	}},
}

func (w *clusterWorld) make(x *subject) error { return w.provision(x.instance) }

func (w *clusterWorld) makeBound(x *subject) (err error) {
	if err = w.provision(x.instance); err == nil {
		x.app, err = w.bind(x.instance, x.binding)
	}
	return err
}

// killBetweenSteps kills the primary between every two steps and statements of every operation. It returns how many
// points there were.
func (w *clusterWorld) killBetweenSteps(t *testing.T, faults *testdrive.Faults) (points int) {
	t.Helper()
	for _, o := range operations {
		for n, point := range w.pointsOf(t, faults, o) {
			w.killAt(t, faults, o, n, point)
			points++
			if t.Failed() {
				t.Fatalf("%s, killed at %q", o.name, point)
			}
		}
	}
	return points
}

// pointsOf lists the points of an operation that nothing happens to.
func (w *clusterWorld) pointsOf(t *testing.T, faults *testdrive.Faults, o operation) (seen []string) {
	t.Helper()
	x := w.prepare(t, o)
	var mu sync.Mutex
	faults.Decide(func(_ int, point string) testdrive.Word {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, point)
		return testdrive.GoOn
	})
	if err := o.do(w, x); err != nil {
		t.Fatal(err)
	}
	faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
	mu.Lock()
	defer mu.Unlock()
	if len(seen) == 0 {
		t.Fatalf("%s passes no points", o.name)
	}
	return seen
}

func (w *clusterWorld) prepare(t *testing.T, o operation) *subject {
	t.Helper()
	x := &subject{instance: uuid.NewString(), binding: uuid.NewString(), plan: w.small}
	if o.prepare != nil {
		if err := o.prepare(w, x); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// killAt kills the primary when an operation comes to its nth point, which had that name before. Sessions of the account
// are open on every node.
func (w *clusterWorld) killAt(t *testing.T, faults *testdrive.Faults, o operation, nth int, name string) {
	t.Helper()
	x := w.prepare(t, o)
	open := map[int]*sql.Conn{}
	if x.app.Username != "" {
		open = w.openOnEach(t, x.app)
	}
	old := w.Primary(t)
	var once sync.Once
	var mu sync.Mutex
	passed := 0
	faults.Decide(func(int, string) testdrive.Word {
		mu.Lock()
		here := passed == nth
		passed++
		mu.Unlock()
		if here {
			once.Do(func() { w.Nodes[old].Kill(t) })
		}
		return testdrive.GoOn
	})
	began := time.Now()
	if err := o.do(w, x); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
	if w.Nodes[old].Runs() { // fewer points than the last time
		return
	}
	t.Logf("%s, primary killed at %q: %.1f s", o.name, name, took.Seconds())
	if strings.HasPrefix(o.name, "unbind") || o.name == "deprovision" {
		for n, conn := range open {
			if _, err := conn.ExecContext(context.Background(), "SELECT 1"); err == nil {
				t.Errorf("a session on node %d outlives the %s", n+1, o.name)
			}
		}
	}
	w.follow(t)
	w.Start(t, old, false)
	w.AwaitComplete(t)
	w.compare(t)
}

// openOnEach opens a session of an account on every node.
func (w *clusterWorld) openOnEach(t *testing.T, app audit.Credentials) map[int]*sql.Conn {
	t.Helper()
	open := map[int]*sql.Conn{}
	for n, node := range w.Nodes {
		app.Host, app.Port = node.Host, node.Port
		db, err := app.Open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		// An account arrives on the other nodes a moment later.
		testdrive.Eventually(t, testdrive.Patience, "the account can log in everywhere", func() bool {
			conn, err := db.Conn(t.Context())
			open[n] = conn
			return err == nil
		})
	}
	return open
}
