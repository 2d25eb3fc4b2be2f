// Package ha kills primaries: that of the broker's PostgreSQL, and those of clusters of MySQL and MariaDB servers. It
// compares what platforms were told with what is left. The long form, with the environment variable HA=long, repeats
// each failover and prints how long they take.
package ha

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// world is a platform that sends requests to several brokers by turns, and repeats those that are answered with 5xx.
type world struct {
	*platform.World
	small, large platform.Plan
	brokers      []*testdrive.Broker
	turn, done   atomic.Int64

	mu      sync.Mutex
	refused time.Time       // when a request was last answered with 503
	worst   time.Duration   // of a response
	other   map[string]bool // responses of 5xx that are not 503
}

func newWorld(t *testing.T, brokers ...*testdrive.Broker) *world {
	w := &world{brokers: brokers, other: map[string]bool{}, small: platform.NamedPlan(t, "shared-small"),
		large: platform.NamedPlan(t, "shared-large")}
	w.World = &platform.World{Send: w.send, PollEach: 50 * time.Millisecond}
	return w
}

func (w *world) send(method, path string, body any) (testdrive.Response, error) {
	began := time.Now()
	r, err := w.brokers[int(w.turn.Add(1))%len(w.brokers)].Send(method, path, body, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.worst = max(w.worst, time.Since(began))
	switch {
	case r.Status == http.StatusServiceUnavailable:
		w.refused = time.Now()
	case r.Status >= 500:
		w.other[r.Raw] = true
	case err == nil && (r.Status < 300 || r.Status == http.StatusGone):
		w.done.Add(1)
	}
	return r, err
}

// provision makes an instance of the small plan.
func (w *world) provision(id string) error {
	return w.Make(w.small, false, &audit.Instance{ID: id, PlanID: w.small.ID})
}

// bound makes an instance with a binding.
func (w *world) bound(t *testing.T) audit.Binding {
	id := uuid.NewString()
	require.NoError(t, w.provision(id))
	b, err := w.Bind(w.small, id)
	require.NoError(t, err)
	return b
}

func (w *world) delete(i audit.Instance) error {
	of := w.small
	if i.PlanID == w.large.ID {
		of = w.large
	}
	return w.Delete(&platform.Target{Workflow: platform.Workflow{Kind: platform.Deprovision, Plan: of}, Instance: i})
}

// cycle creates an instance with two bindings, uses one, ends the other, and changes the plan. It deletes every other
// instance.
func (w *world) cycle(ctx context.Context, n int) error {
	i := audit.Instance{ID: uuid.NewString(), PlanID: w.small.ID, State: audit.Exists}
	if err := w.Make(w.small, false, &i); err != nil {
		return err
	}
	kept, err := w.Bind(w.small, i.ID)
	if err != nil {
		return err
	}
	i.Note = uuid.NewString()
	if err := write(ctx, kept.Credentials, i.Note); err != nil {
		return fmt.Errorf("use the instance: %w", err)
	}
	w.Tell(i)
	ended, err := w.Bind(w.small, i.ID)
	if err != nil {
		return err
	}
	if _, err := w.Run(w.small.Update(i.ID, w.large)); err != nil {
		return err
	}
	i.PlanID = w.large.ID
	w.Tell(i)
	if err := w.Unbind(w.small, ended); err != nil || n%2 == 1 {
		return err
	}
	return w.delete(i)
}

// write does what audit.Write does, again and again while the server fails over, as applications do.
func write(ctx context.Context, c audit.Credentials, note string) error {
	for deadline := time.Now().Add(limits.Stuck); ; time.Sleep(100 * time.Millisecond) {
		limited, cancel := context.WithTimeout(ctx, failoverTime)
		err := audit.Execute(limited, c, "CREATE TABLE IF NOT EXISTS note (text varchar(100) PRIMARY KEY)",
			"REPLACE INTO note VALUES ('"+note+"')")
		cancel()
		if err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
	}
}

// load runs cycles until end is called, which returns when all have ended.
func (w *world) load(t *testing.T, clients int) (end func()) {
	goesOn, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for n := 0; goesOn.Err() == nil; n++ {
				if err := w.cycle(context.Background(), n); err != nil {
					t.Errorf("an operation under load: %v", err)
					return
				}
			}
		})
	}
	return func() {
		stop()
		all.Wait()
	}
}

// awaitDone waits until more requests have succeeded.
func (w *world) awaitDone(t *testing.T, more int64) { w.awaitMoreThan(t, w.done.Load(), more) }

// awaitMoreThan waits until so many more requests have succeeded than had before.
func (w *world) awaitMoreThan(t *testing.T, before, more int64) {
	testdrive.Eventually(t, fmt.Sprintf("%d more requests", more), func() bool {
		return w.done.Load() >= before+more || t.Failed()
	})
}

// expectOnly503 fails the test if a response was another 5xx.
func (w *world) expectOnly503(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Empty(t, w.other, "responses of 5xx that are not 503")
}

// clear deletes all instances.
func (w *world) clear(t *testing.T) {
	for _, i := range w.Left() {
		assert.NoError(t, w.delete(i))
	}
}

func TestMain(m *testing.M) { servers.Main(m) }

func long() bool { return os.Getenv("HA") == "long" }

// rounds is how often a failover is repeated.
func rounds(inLongForm int) int {
	if long() {
		return inLongForm
	}
	return 1
}
