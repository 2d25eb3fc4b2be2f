package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mysql-broker/test/testdrive"
)

// cluster is three replicas of one broker.
type cluster struct {
	replicas [3]platform
	faults   *testdrive.Faults
	tasks    tasks
}

func startCluster(t *testing.T, flavour string) (cluster, map[string]string) {
	t.Helper()
	private := testdrive.Private(t, flavour)
	env := testdrive.Environment(t, private)
	c := cluster{faults: testdrive.NewFaults(t, env), tasks: openTasks(t, env)}
	for n := range c.replicas {
		c.replicas[n] = startPlatform(t, private, env)
	}
	return c, env
}

// newInstance is platform.newInstance at the first replica.
func (c cluster) newInstance(t *testing.T, plan string) instance {
	return c.replicas[0].newInstance(t, plan)
}

// provisioned is platform.provisioned at the first replica.
func (c cluster) provisioned(t *testing.T, plan string) instance {
	return c.replicas[0].provisioned(t, plan, nil)
}

func (c cluster) race(t *testing.T, request func(n int) (method, path string, body any)) []testdrive.Response {
	t.Helper()
	return raceOver(t, c.replicas[:], request)
}

// expectNoDeadlock fails the test if PostgreSQL had to end a transaction because of another.
func (c cluster) expectNoDeadlock(t *testing.T) {
	t.Helper()
	var deadlocks int
	if err := c.tasks.pool.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database
		WHERE datname = current_database()`).Scan(&deadlocks); err != nil {
		t.Fatal(err)
	}
	if deadlocks != 0 {
		t.Errorf("%d deadlocks in PostgreSQL", deadlocks)
	}
}

// modeOf is how a platform asks for an operation on a plan.
func modeOf(plan string) string {
	if plan == "shared-small" {
		return now
	}
	return later
}

// expectOneOf fails the test unless the answer has one of the statuses; a 422 must be a ConcurrencyError.
func expectOneOf(t *testing.T, r testdrive.Response, statuses ...int) {
	t.Helper()
	if !slices.Contains(statuses, r.Status) {
		t.Errorf("status %d instead of one of %v: %s", r.Status, statuses, r.Raw)
	}
	if r.Status == http.StatusUnprocessableEntity && r.String("error") != "ConcurrencyError" {
		t.Errorf("not a ConcurrencyError: %s", r.Raw)
	}
}

// expectOneOperation returns the token that all 202 among the answers have in common, "" if there is none.
func expectOneOperation(t *testing.T, answers []testdrive.Response) string {
	t.Helper()
	tokens := map[string]bool{}
	for _, r := range answers {
		if r.Status == http.StatusAccepted {
			tokens[r.String("operation")] = true
		}
	}
	if len(tokens) > 1 {
		t.Fatalf("the requests began %v", slices.Sorted(maps.Keys(tokens)))
	}
	for token := range tokens {
		return token
	}
	return ""
}

// settle waits for the end of an operation, if there is one, with many asking at all replicas meanwhile. Whoever has
// read how it ended must not read anything else later.
func (c cluster) settle(t *testing.T, i instance, operation string) (state string) {
	t.Helper()
	if operation == "" {
		return "succeeded"
	}
	states := make([]string, racers)
	var all sync.WaitGroup
	for n := range racers {
		all.Go(func() {
			deadline := time.Now().Add(2 * time.Minute)
			for ask := n; time.Now().Before(deadline); ask++ {
				r, err := c.replicas[ask%len(c.replicas)].Send("GET", i.path()+"/last_operation?operation="+operation, nil, nil)
				switch {
				case err != nil:
					t.Error(err)
					return
				case r.Status != http.StatusOK:
					t.Errorf("a poll was answered %d %s", r.Status, r.Raw)
					return
				case states[n] != "" && r.String("state") != states[n]:
					t.Errorf("after %q a poll was answered %s", states[n], r.Raw)
					return
				case states[n] != "":
					return
				case r.String("state") != "in progress":
					states[n] = r.String("state") // and once more, of another replica
				default:
					time.Sleep(20 * time.Millisecond)
				}
			}
			t.Errorf("%s was still in progress after 2 minutes", operation)
		})
	}
	all.Wait()
	if first := states[0]; slices.ContainsFunc(states, func(s string) bool { return s != first }) {
		t.Errorf("%s ended as %q", operation, states)
	}
	return states[0]
}

// awaitBlocked waits until a statement of the brokers' that matches a regular expression waits for a lock in PostgreSQL,
// or the request that it belongs to is answered: on a busy machine it may have waited, and given up, unseen.
func (c cluster) awaitBlocked(t *testing.T, statement string, answer <-chan testdrive.Response) {
	t.Helper()
	testdrive.Eventually(t, time.Minute, "a statement "+statement+" waits for a lock", func() (waits bool) {
		if err := c.tasks.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'mysql-broker' AND wait_event_type = 'Lock'
				AND query ~ $1)`, statement).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits || len(answer) > 0
	})
}

// holdAt holds the next replica that comes to a point: see the function.
func (c cluster) holdAt(t *testing.T, point string) (at <-chan struct{}, release func()) {
	t.Helper()
	return holdAt(t, c.faults, point)
}

// points lists the fault points that replicas come to meanwhile, each once. KILL is left out: it depends on who logs in
// on the server in that moment.
func (c cluster) points(t *testing.T, run func()) (all []string) {
	t.Helper()
	var lock sync.Mutex
	c.faults.Decide(func(_ int, point string) testdrive.Word {
		lock.Lock()
		defer lock.Unlock()
		if !slices.Contains(all, point) && !strings.HasSuffix(point, ": KILL ?") {
			all = append(all, point)
		}
		return testdrive.GoOn
	})
	run()
	c.faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
	lock.Lock()
	defer lock.Unlock()
	return slices.Clone(all)
}
