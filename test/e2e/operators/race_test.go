package operators

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

var clusterRaces = []struct {
	name  string
	plans []string
	run   func(t *testing.T, c cluster, plan string)
}{
	{"identical provisions", []string{"shared-small", "shared-async", "dedicated-small"}, raceSameProvisions},
	{"different provisions", []string{"shared-small", "shared-async"}, raceDifferentProvisions},
	{"deletion during creation", []string{"shared-small", "shared-async", "dedicated-small"}, raceDeletionDuringCreation},
	{"creation after deletion", []string{"shared-small", "shared-async"}, raceCreationAfterDeletion},
	{"binds", []string{"shared-small"}, raceBinds},
	{"binds and unbinds of one binding", []string{"shared-small"}, raceBindsAndUnbinds},
	{"updates against binds and unbinds", []string{"shared-small"}, raceUpdates},
	{"updates and binds against a deletion", []string{"shared-small", "shared-async"}, raceDeletionWithOthers},
}

// Replicas share only PostgreSQL and the servers, and each must know at once what the others do.
func TestFaultRacesOverReplicas(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	c, env := startCluster(t, s.Flavour)
	t.Run("together", func(t *testing.T) {
		for _, r := range clusterRaces {
			for _, plan := range r.plans {
				t.Run(r.name+" of "+plan, func(t *testing.T) {
					t.Parallel()
					r.run(t, c, plan)
				})
			}
		}
	})
	c.expectNoDeadlock(t)
	for _, found := range audit.Check(t.Context(), audit.World{PostgresURL: env["DATABASE_URL"],
		Keyset: env["ENCRYPTION_KEYSET"], Shared: c.replicas[0].Admin(t), Launchers: testdrive.Inspectors(env)}) {
		t.Error(found) // all instances are deleted
	}
}

func raceSameProvisions(t *testing.T, c cluster, plan string) {
	i := c.newInstance(t, plan)
	release := func() {}
	if plan == "dedicated-small" {
		release = c.replicas[0].HoldLaunches(t)
	}
	answers := c.race(t, func(int) (string, string, any) { return "PUT", i.Path() + modeOf(plan), i.ProvisionBody(nil) })
	if modeOf(plan) == testdrive.Sync {
		testdrive.ExpectStatuses(t, answers, http.StatusCreated, http.StatusOK)
	}
	for _, r := range answers {
		expectOneOf(t, r, http.StatusOK, http.StatusCreated, http.StatusAccepted)
	}
	operation := expectOneOperation(t, answers)
	if plan == "dedicated-small" {
		for n, p := range c.replicas {
			testdrive.ExpectError(t, i.Via(p).NewBinding().Bind(t, nil), "ConcurrencyError")
			testdrive.ExpectError(t, i.Via(p).UpdatePlan(t, testdrive.Async, "dedicated-large"), "ConcurrencyError")
			i.Via(p).Provision(t, testdrive.Async, body{"space_guid": strconv.Itoa(n)}).Expect(t, http.StatusConflict)
		}
		release()
	}
	if state := c.settle(t, i, operation); state != "succeeded" {
		t.Fatalf("the creation %s", state)
	}
	_, login := i.Bound(t, nil)
	login.Open(t)
	testdrive.ExpectEmpty(t, i.Via(c.replicas[1]).Provision(t, modeOf(plan), nil), http.StatusOK)
	raceDeletions(t, c, i, modeOf(plan))
	if testdrive.Connect(t, login.Fields(t)).PingContext(t.Context()) == nil {
		t.Error("the login outlived the instance")
	}
}

// raceDeletions deletes an instance several times at once. All deletions that find it are one.
func raceDeletions(t *testing.T, c cluster, i testdrive.Instance, mode string) {
	t.Helper()
	answers := c.race(t, func(int) (string, string, any) { return "DELETE", i.Deletion(i.Path(), mode), nil })
	won := http.StatusOK
	if mode == testdrive.Async {
		won = http.StatusAccepted
	}
	if !slices.ContainsFunc(answers, func(r testdrive.Response) bool { return r.Status == won }) {
		t.Error("no deletion was carried out")
	}
	for _, r := range answers {
		expectOneOf(t, r, won, http.StatusGone)
	}
	if state := c.settle(t, i, expectOneOperation(t, answers)); state != "succeeded" {
		t.Errorf("the deletion %s", state)
	}
	for _, p := range c.replicas {
		testdrive.ExpectEmpty(t, i.Via(p).Deprovision(t, testdrive.Async), http.StatusGone)
		i.Via(p).Fetch(t).Expect(t, http.StatusNotFound)
	}
}

func raceDifferentProvisions(t *testing.T, c cluster, plan string) {
	i := c.newInstance(t, plan)
	won := http.StatusCreated
	if modeOf(plan) == testdrive.Async {
		won = http.StatusAccepted
	}
	answers := c.race(t, func(n int) (string, string, any) {
		return "PUT", i.Path() + modeOf(plan), i.ProvisionBody(body{"space_guid": strconv.Itoa(n)})
	})
	testdrive.ExpectStatuses(t, answers, won, http.StatusConflict)
	c.settle(t, i, expectOneOperation(t, answers))
	raceDeletions(t, c, i, modeOf(plan))
}

// A deletion cancels the creation, or comes after it. Either way nothing is left.
func raceDeletionDuringCreation(t *testing.T, c cluster, plan string) {
	i := c.newInstance(t, plan)
	mode := modeOf(plan)
	answers := c.race(t, func(n int) (string, string, any) {
		if n >= testdrive.Racers/2 {
			return "DELETE", i.Deletion(i.Path(), mode), nil
		}
		return "PUT", i.Path() + mode, i.ProvisionBody(nil)
	})
	var operations []string
	for n, r := range answers {
		if n >= testdrive.Racers/2 {
			expectOneOf(t, r, http.StatusOK, http.StatusAccepted, http.StatusGone)
		} else {
			expectOneOf(t, r, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusUnprocessableEntity)
		}
		if r.Status == http.StatusAccepted {
			operations = append(operations, r.String("operation"))
		}
	}
	last := i.Deprovision(t, mode)
	expectOneOf(t, last, http.StatusOK, http.StatusAccepted, http.StatusGone)
	if last.Status == http.StatusAccepted {
		operations = append(operations, last.String("operation"))
	}
	slices.Sort(operations)
	for _, operation := range slices.Compact(operations) {
		c.settle(t, i, operation) // a creation may have been cancelled
	}
	for _, p := range c.replicas {
		testdrive.ExpectEmpty(t, i.Via(p).Deprovision(t, mode), http.StatusGone)
	}
}

// As long as the deletion goes on, its id is taken; from then on it is free, for an instance that has nothing of the
// former one.
func raceCreationAfterDeletion(t *testing.T, c cluster, plan string) {
	i := c.provisioned(t, plan)
	b, old := i.Bound(t, nil)
	testdrive.UseAsApplication(t, old)
	mode := modeOf(plan)
	deleted := i.Begin("DELETE", i.Deletion(i.Path(), mode), nil)
	var deletion string
	if mode == testdrive.Async {
		r := <-deleted
		deletion = r.Expect(t, http.StatusAccepted).String("operation")
	}
	var r testdrive.Response
	ask := 0
	testdrive.Eventually(t, limits.Stuck, "the id is free again", func() bool {
		ask++
		r = i.Via(c.replicas[ask%len(c.replicas)]).Provision(t, mode, nil)
		if mode == testdrive.Sync { // a request that was faster than the deletion found the old one
			expectOneOf(t, r, http.StatusOK, http.StatusCreated, http.StatusUnprocessableEntity)
		} else {
			expectOneOf(t, r, http.StatusAccepted, http.StatusUnprocessableEntity)
		}
		return r.Status == http.StatusCreated || r.Status == http.StatusAccepted
	})
	if mode == testdrive.Sync {
		r := <-deleted
		r.Expect(t, http.StatusOK)
	} else {
		if state := c.settle(t, i, deletion); state != "succeeded" {
			t.Errorf("the deletion %s", state)
		}
		c.settle(t, i, r.String("operation"))
	}
	fresh := i.Credentials(t, b.Bind(t, nil).Expect(t, http.StatusCreated))
	if fresh.Database == old.Database || fresh.Username == old.Username {
		t.Error("the new instance has the database or the account of the former one")
	}
	n := testdrive.Read[int](t, fresh.Open(t), "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()")
	if n != 0 {
		t.Errorf("the new instance has %d tables", n)
	}
	testdrive.ExpectRefused(t, old.Fields(t))
	raceDeletions(t, c, i, mode)
}

func raceBinds(t *testing.T, c cluster, plan string) {
	i := c.provisioned(t, plan)
	b := i.NewBinding()
	same := c.race(t, func(int) (string, string, any) { return "PUT", b.Path(), b.With(nil) })
	testdrive.ExpectStatuses(t, same, http.StatusCreated, http.StatusOK)
	login := b.Credentials(t, same[0])
	for _, r := range same {
		if b.Credentials(t, r) != login {
			t.Error("the answers have different credentials")
		}
	}
	login.Open(t)
	other := i.NewBinding()
	testdrive.ExpectStatuses(t, c.race(t, func(n int) (string, string, any) {
		return "PUT", other.Path(), other.With(body{"bind_resource": body{"app_guid": strconv.Itoa(n)}})
	}), http.StatusCreated, http.StatusConflict)

	for _, r := range c.race(t, func(int) (string, string, any) { return "DELETE", b.Deletion(b.Path(), testdrive.Sync), nil }) {
		expectOneOf(t, r, http.StatusOK, http.StatusGone)
	}
	testdrive.ExpectRefused(t, login.Fields(t))
	raceDeletions(t, c, i, testdrive.Sync)
}

// A bind that succeeded and was not unbound later has an account; every other one has none.
func raceBindsAndUnbinds(t *testing.T, c cluster, plan string) {
	i := c.provisioned(t, plan)
	for range 5 {
		b := i.NewBinding()
		for n, r := range c.race(t, func(n int) (string, string, any) {
			if n%2 == 0 {
				return "DELETE", b.Deletion(b.Path(), testdrive.Sync), nil
			}
			return "PUT", b.Path(), b.With(nil)
		}) {
			if n%2 == 0 {
				expectOneOf(t, r, http.StatusOK, http.StatusGone)
			} else {
				expectOneOf(t, r, http.StatusOK, http.StatusCreated, http.StatusUnprocessableEntity)
			}
		}
		login := b.Credentials(t, func() testdrive.Response {
			r := b.Bind(t, nil)
			expectOneOf(t, r, http.StatusOK, http.StatusCreated)
			return r
		}())
		login.Open(t)
		testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
		testdrive.ExpectRefused(t, login.Fields(t))
	}
	raceDeletions(t, c, i, testdrive.Sync)
}

// Identical updates all succeed. Whatever the order of an update and of binds, every account ends with the new plan's limit.
func raceUpdates(t *testing.T, c cluster, plan string) {
	i := c.provisioned(t, plan)
	ended, _ := i.Bound(t, nil)
	_, large := testdrive.Plan(t, "shared-large")
	fields := body{"service_id": i.ServiceID, "plan_id": large}
	for _, r := range c.race(t, func(int) (string, string, any) { return "PATCH", i.Path(), fields }) {
		r.Expect(t, http.StatusOK) // the same update is one operation
	}
	i.UpdatePlan(t, testdrive.Sync, "shared-small").Expect(t, http.StatusOK)
	bindings := make([]testdrive.Binding, testdrive.Racers)
	for n, r := range c.race(t, func(n int) (string, string, any) {
		bindings[n] = i.NewBinding()
		switch n % 4 {
		case 0, 1:
			return "PATCH", i.Path(), fields
		case 2:
			return "DELETE", ended.Deletion(ended.Path(), testdrive.Sync), nil
		}
		return "PUT", bindings[n].Path(), i.With(nil)
	}) {
		switch n % 4 {
		case 0, 1:
			expectOneOf(t, r, http.StatusOK, http.StatusUnprocessableEntity)
		case 2:
			expectOneOf(t, r, http.StatusOK, http.StatusGone, http.StatusUnprocessableEntity)
		default:
			expectOneOf(t, r, http.StatusCreated, http.StatusUnprocessableEntity)
		}
	}
	i.Do(t, "PATCH", i.Path(), fields).Expect(t, http.StatusOK)
	i.PlanID = large
	for n, b := range bindings {
		if n%4 == 3 {
			r := b.Bind(t, nil)
			expectOneOf(t, r, http.StatusOK, http.StatusCreated)
			testdrive.ExpectConnectionLimit(t, i.Admin(t), i.Credentials(t, r).Username, 60)
		}
	}
	raceDeletions(t, c, i, testdrive.Sync)
}

// Whatever the order, no account outlives the instance.
func raceDeletionWithOthers(t *testing.T, c cluster, plan string) {
	i := c.provisioned(t, plan)
	i.Bound(t, nil)
	_, large := testdrive.Plan(t, "shared-large")
	answers := c.race(t, func(n int) (string, string, any) {
		switch {
		case n == testdrive.Racers/2:
			return "DELETE", i.Deletion(i.Path(), modeOf(plan)), nil
		case n%2 == 0:
			return "PATCH", i.Path() + modeOf(plan), body{"service_id": i.ServiceID, "plan_id": large}
		}
		b := i.NewBinding()
		return "PUT", b.Path(), b.With(nil)
	})
	deletion := answers[testdrive.Racers/2]
	expectOneOf(t, deletion, http.StatusOK, http.StatusAccepted)
	if deletion.Status == http.StatusAccepted {
		if state := c.settle(t, i, deletion.String("operation")); state != "succeeded" {
			t.Errorf("the deletion %s", state)
		}
	}
	for n, r := range answers {
		switch {
		case n == testdrive.Racers/2:
		case n%2 == 0:
			expectOneOf(t, r, http.StatusOK, http.StatusAccepted, http.StatusNotFound, http.StatusUnprocessableEntity)
		case r.Status == http.StatusCreated:
			if account := i.Credentials(t, r).Username; testdrive.AccountExists(t, c.replicas[0], account) {
				t.Errorf("the account %s is left on the server", account)
			}
		default:
			expectOneOf(t, r, http.StatusNotFound, http.StatusUnprocessableEntity)
		}
	}
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Async), http.StatusGone)
}

// cluster is three replicas of one broker.
type cluster struct {
	replicas [3]testdrive.Platform
	faults   *testdrive.Faults
	tasks    testdrive.Tasks
}

func startCluster(t *testing.T, flavour string) (cluster, map[string]string) {
	t.Helper()
	private := testdrive.Private(t, flavour)
	env := testdrive.Environment(t, private)
	c := cluster{faults: testdrive.NewFaults(t, env), tasks: testdrive.OpenTasks(t, env)}
	for n := range c.replicas {
		c.replicas[n] = testdrive.StartPlatform(t, private, env)
	}
	return c, env
}

// newInstance is Platform.NewInstance at the first replica.
func (c cluster) newInstance(t *testing.T, plan string) testdrive.Instance {
	return c.replicas[0].NewInstance(t, plan)
}

// provisioned is Platform.Provisioned at the first replica.
func (c cluster) provisioned(t *testing.T, plan string) testdrive.Instance {
	return c.replicas[0].Provisioned(t, plan, nil)
}

func (c cluster) race(t *testing.T, request func(n int) (method, path string, body any)) []testdrive.Response {
	t.Helper()
	return testdrive.RaceOver(t, c.replicas[:], request)
}

// expectNoDeadlock fails the test if PostgreSQL had to end a transaction because of another.
func (c cluster) expectNoDeadlock(t *testing.T) {
	t.Helper()
	var deadlocks int
	c.tasks.Scan(t, &deadlocks, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
	if deadlocks != 0 {
		t.Errorf("%d deadlocks in PostgreSQL", deadlocks)
	}
}

// modeOf is how a platform asks for an operation on a plan.
func modeOf(plan string) string {
	if plan == "shared-small" {
		return testdrive.Sync
	}
	return testdrive.Async
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
func (c cluster) settle(t *testing.T, i testdrive.Instance, operation string) (state string) {
	t.Helper()
	if operation == "" {
		return "succeeded"
	}
	states := make([]string, testdrive.Racers)
	var all sync.WaitGroup
	for n := range testdrive.Racers {
		all.Go(func() {
			deadline := time.Now().Add(limits.Stuck)
			for ask := n; time.Now().Before(deadline); ask++ {
				r, err := c.replicas[ask%len(c.replicas)].Send("GET", i.Path()+"/last_operation?operation="+operation, nil, nil)
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
