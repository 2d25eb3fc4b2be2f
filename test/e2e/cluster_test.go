package e2e

import (
	"maps"
	"net/http"
	"slices"
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

// expectOneOf fails the test unless the response has one of the statuses; a 422 must be a ConcurrencyError.
func expectOneOf(t *testing.T, r testdrive.Response, statuses ...int) {
	t.Helper()
	if !slices.Contains(statuses, r.Status) {
		t.Errorf("status %d instead of one of %v: %s", r.Status, statuses, r.Raw)
	}
	if r.Status == http.StatusUnprocessableEntity && r.String("error") != "ConcurrencyError" {
		t.Errorf("not a ConcurrencyError: %s", r.Raw)
	}
}

// expectOneOperation returns the token that all 202 among the responses have in common, "" if there is none.
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

// settle waits for the end of an operation, if there is one, and polls it at all replicas at the same time. A poll that
// has seen how the operation ended must not see anything else later.
func (c cluster) settle(t *testing.T, i instance, operation string) (state string) {
	t.Helper()
	if operation == "" {
		return "succeeded"
	}
	states := make([]string, racers)
	var all sync.WaitGroup
	for n := range racers {
		all.Go(func() {
			deadline := time.Now().Add(testdrive.Patience)
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

const racers = 8

// raceOver sends requests at the same time, alternating between the replicas; request returns the n-th one.
func raceOver(t *testing.T, replicas []platform,
	request func(n int) (method, path string, body any)) []testdrive.Response {
	t.Helper()
	answers := make([]testdrive.Response, racers)
	var all sync.WaitGroup
	for n := range racers {
		all.Go(func() {
			method, path, body := request(n)
			var err error
			if answers[n], err = replicas[n%len(replicas)].Send(method, path, body, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return answers
}

// expectStatuses fails the test unless one answer has the status won and all others lost.
func expectStatuses(t *testing.T, answers []testdrive.Response, won, lost int) {
	t.Helper()
	got, want := map[int]int{}, map[int]int{won: 1, lost: racers - 1}
	for _, r := range answers {
		got[r.Status]++
	}
	if !maps.Equal(got, want) {
		t.Errorf("answers by status: %v instead of %v", got, want)
	}
}
