// Package soak keeps brokers busy and looks for what piles up in them. The tests of this package do not run side by side.
package soak

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

const (
	sampleInterval = 2 * time.Second
	printInterval  = time.Minute
	// memoryGrowth is by how many bytes a broker's memory may be larger in the last fifth of the time than it was in the
	// second, when it had seen everything. What garbage collections leave to chance is far less; 100 bytes lost by each
	// operation would be more after 15 minutes.
	memoryGrowth = 8 << 20
)

// TestSoak keeps a broker for each flavour busy for as long as $SOAK says, e.g. 15m, and watches what they hold. Without
// it, it only makes sure that it would see something.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(cmp.Or(os.Getenv("SOAK"), "10s"))
	require.NoError(t, err, "SOAK")
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		w := newWitness(t, private, env["DATABASE_URL"])
		broker := testdrive.Start(t, env)
		var operations atomic.Int64
		tenants := crowd(t, broker, &operations)
		begun := time.Now()
		var working sync.WaitGroup
		working.Go(func() { assert.NoError(t, liveTogether(tenants, func() bool { return time.Since(begun) < length })) })
		ended := make(chan struct{})
		go func() {
			working.Wait()
			close(ended)
		}()
		samples := watch(t, broker, w, s.Flavour, &operations, ended)
		require.False(t, operations.Load() == 0 || len(samples) < 3,
			"%d operations, %d samples", operations.Load(), len(samples))
		if length >= printInterval {
			expectFlat(t, samples)
		}
	})
}

// sample is what a broker holds at a moment, of its own metrics and as the servers see it.
type sample struct {
	at             time.Duration
	resident, heap int // bytes
	holdings
}

// watch takes samples until ended is closed, and prints one each minute.
func watch(t *testing.T, broker *testdrive.Broker, w witness, flavour string, operations *atomic.Int64,
	ended <-chan struct{}) (samples []sample) {
	begun, printed := time.Now(), -printInterval
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for {
		s := sample{at: time.Since(begun), holdings: w.connections(t)}
		figures := broker.Scrape(t)
		s.resident = figures.Int(t, "process_resident_memory_bytes")
		s.heap = figures.Int(t, "go_memstats_heap_inuse_bytes")
		s.goroutines, s.files = figures.Int(t, "go_goroutines"), figures.Int(t, "process_open_fds")
		samples = append(samples, s)
		assert.True(t, s.postgres <= postgresConnections && s.mysql <= mysqlConnections,
			"more connections than the broker may hold: %d to PostgreSQL, %d to the shared server", s.postgres, s.mysql)
		if s.at-printed >= printInterval {
			printed = s.at
			fmt.Printf("%s\t%v\t%d operations\tRSS %d MB\theap %d MB\t%d goroutines\t%d files\tPostgreSQL %d\tmysqld %d\n",
				flavour, s.at.Round(time.Second), operations.Load(), s.resident>>20, s.heap>>20, s.goroutines, s.files,
				s.postgres, s.mysql)
		}
		select {
		case <-ended:
			return samples
		case <-tick.C:
		}
	}
}

// expectFlat compares the last fifth with the second.
func expectFlat(t *testing.T, samples []sample) {
	t.Helper()
	fifth := len(samples) / 5
	early, late := samples[fifth:2*fifth], samples[len(samples)-fifth:]
	for name, c := range map[string]struct {
		of    func(sample) int
		bound int
	}{
		"bytes of memory": {func(s sample) int { return s.resident }, memoryGrowth},
		"goroutines":      {func(s sample) int { return s.goroutines }, postgresConnections + mysqlConnections},
		"open files":      {func(s sample) int { return s.files }, postgresConnections + mysqlConnections},
	} {
		before, after := median(early, c.of), median(late, c.of)
		t.Logf("%s: %d in the second fifth of the time, %d in the last", name, before, after)
		assert.True(t, after-before <= c.bound,
			"%s: %d in the last fifth of the time, %d in the second; %d more are allowed", name, after, before, c.bound)
	}
}

func median(samples []sample, of func(sample) int) int {
	values := make([]int, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// tenant makes instances of one plan, uses them and deletes them again, one after the other.
type tenant struct {
	*platform.World
	plan platform.Plan
}

// live does with one instance everything that platforms do, including repeated requests and requests that fail.
func (n tenant) live() error {
	id, binding, other := uuid.NewString(), uuid.NewString(), uuid.NewString()
	different, unknown := n.plan.Provision(id), n.plan.Bind(id, other+"more")
	different.Body.(map[string]any)["space_guid"] = "another"
	unknown.Body.(map[string]any)["plan_id"] = "none"
	get := func(path string) platform.Request { return platform.Request{Method: http.MethodGet, Path: path} }
	instance, bound := get(platform.InstancePath(id)), get(platform.BindingPath(id, binding))
	operation := get(instance.Path + "/last_operation")
	for _, r := range []struct {
		status int // or 202, and then as it were 200
		platform.Request
	}{
		{http.StatusNotFound, instance},
		{http.StatusCreated, n.plan.Provision(id)},
		{http.StatusOK, n.plan.Provision(id)},
		{http.StatusConflict, different},
		{http.StatusOK, instance},
		{http.StatusCreated, n.plan.Bind(id, binding)},
		{http.StatusOK, n.plan.Bind(id, binding)},
		{http.StatusCreated, n.plan.Bind(id, other)},
		{http.StatusOK, bound},
		{http.StatusOK, instance},
		{http.StatusOK, operation},
		{http.StatusBadRequest, unknown},
		{http.StatusOK, n.plan.Unbind(id, binding)},
		{http.StatusGone, n.plan.Unbind(id, binding)},
		{http.StatusOK, n.plan.Deprovision(id)},
		{http.StatusGone, n.plan.Deprovision(id)},
	} {
		if err := n.ask(r.status, r.Request); err != nil {
			return err
		}
	}
	return nil
}

// ask fails unless this status, or 202 and then success, is what the broker answers.
func (n tenant) ask(status int, q platform.Request) error {
	r, err := n.Send(q.Method, q.Path, q.Body)
	if err != nil || r.Status == status {
		return err
	}
	if r.Status != http.StatusAccepted || status >= 300 {
		return fmt.Errorf("%s %s: status %d instead of %d: %s", q.Method, q.Path, r.Status, status, r.Raw)
	}
	got, err := n.Conclude(q, r)
	if err == nil && got.Failed {
		err = fmt.Errorf("%s %s: %s", q.Method, q.Path, got.Raw)
	}
	return err
}

// sharedTenants is how many there are of shared servers: more than the broker has connections for.
const sharedTenants = 24

// crowd is all tenants of a broker: of shared servers, answered at once or later, and one of dedicated servers.
func crowd(t *testing.T, broker *testdrive.Broker, operations *atomic.Int64) (all []tenant) {
	for i := range sharedTenants {
		plan := "shared-small"
		if i%4 == 0 {
			plan = "shared-async"
		}
		all = append(all, newTenant(t, broker, plan, operations))
	}
	return append(all, newTenant(t, broker, "dedicated-small", operations))
}

func newTenant(t *testing.T, broker *testdrive.Broker, plan string, operations *atomic.Int64) tenant {
	send := func(method, path string, body any) (testdrive.Response, error) {
		defer operations.Add(1)
		return broker.Send(method, path, body, nil)
	}
	return tenant{&platform.World{Send: send, PollEach: 100 * time.Millisecond}, platform.NamedPlan(t, plan)}
}

// liveTogether lets all tenants live again and again while goOn says so, once at least, and then disconnects them.
func liveTogether(tenants []tenant, goOn func() bool) error {
	defer http.DefaultClient.CloseIdleConnections()
	all, ctx := errgroup.WithContext(context.Background())
	for _, n := range tenants {
		all.Go(func() error {
			for again := true; again && ctx.Err() == nil; again = goOn() {
				if err := n.live(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

func TestMain(m *testing.M) { servers.Main(m) }
