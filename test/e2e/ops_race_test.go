package e2e

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// cluster is three replicas of one broker.
type cluster struct {
	replicas [3]platform
	faults   *testdrive.Faults
	tasks    tasks
}

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
	{"updates against a deletion", []string{"shared-small", "shared-async"}, raceUpdatesAndDeletion},
}

// What goes on at one replica must be known to the others at once: they share nothing but PostgreSQL and the servers.
func TestRacesOverReplicas(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
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
		// These hold replicas at points that every operation comes to, and so run by themselves.
		t.Run("an unbind at the end of its bind", func(t *testing.T) { raceUnbindWithEndOfBind(t, c) })
		t.Run("a fetch at the end of a deletion", func(t *testing.T) { raceFetchWithDeletion(t, c) })
		t.Run("clients that disconnect", func(t *testing.T) { raceDisconnects(t, c) })
		c.expectNoDeadlock(t)
		for _, found := range audit.Check(t.Context(), audit.World{PostgresURL: env["DATABASE_URL"],
			Keyset: env["ENCRYPTION_KEYSET"], Shared: c.replicas[0].admin(t), LauncherDir: env["LAUNCHER_DIR"]}) {
			t.Error(found) // all instances are deleted
		}
	})
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

// race is race with the n-th request to the n-th replica, in turn.
func (c cluster) race(t *testing.T, request func(n int) (method, path string, body any)) []testdrive.Response {
	t.Helper()
	answers := make([]testdrive.Response, racers)
	var all sync.WaitGroup
	for n := range racers {
		all.Go(func() {
			method, path, body := request(n)
			var err error
			if answers[n], err = c.replicas[n%len(c.replicas)].Send(method, path, body, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return answers
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

func raceSameProvisions(t *testing.T, c cluster, plan string) {
	i := c.newInstance(t, plan)
	answers := c.race(t, func(int) (string, string, any) { return "PUT", i.path() + modeOf(plan), i.provisionBody(nil) })
	if modeOf(plan) == now {
		expectStatuses(t, answers, http.StatusCreated, http.StatusOK)
	}
	for _, r := range answers {
		expectOneOf(t, r, http.StatusOK, http.StatusCreated, http.StatusAccepted)
	}
	operation := expectOneOperation(t, answers)
	if plan == "dedicated-small" { // which takes far longer than a request
		for n, p := range c.replicas {
			expectError(t, i.via(p).newBinding().bind(t, nil), "ConcurrencyError")
			expectError(t, i.via(p).updatePlan(t, later, "dedicated-large"), "ConcurrencyError")
			i.via(p).provision(t, later, body{"space_guid": strconv.Itoa(n)}).Expect(t, http.StatusConflict)
		}
	}
	if state := c.settle(t, i, operation); state != "succeeded" {
		t.Fatalf("the creation %s", state)
	}
	_, login := i.bound(t, nil)
	login.open(t)
	expectEmpty(t, i.via(c.replicas[1]).provision(t, modeOf(plan), nil), http.StatusOK)
	raceDeletions(t, c, i, modeOf(plan))
	if connect(t, login.fields(t)).PingContext(t.Context()) == nil {
		t.Error("the login outlived the instance")
	}
}

// raceDeletions deletes an instance several times at once. All deletions that find it are one.
func raceDeletions(t *testing.T, c cluster, i instance, mode string) {
	t.Helper()
	answers := c.race(t, func(int) (string, string, any) { return "DELETE", i.deletion(i.path(), mode), nil })
	won := http.StatusOK
	if mode == later {
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
		expectEmpty(t, i.via(p).deprovision(t, later), http.StatusGone)
		i.via(p).fetch(t).Expect(t, http.StatusNotFound)
	}
}

func raceDifferentProvisions(t *testing.T, c cluster, plan string) {
	i := c.newInstance(t, plan)
	won := http.StatusCreated
	if modeOf(plan) == later {
		won = http.StatusAccepted
	}
	answers := c.race(t, func(n int) (string, string, any) {
		return "PUT", i.path() + modeOf(plan), i.provisionBody(body{"space_guid": strconv.Itoa(n)})
	})
	expectStatuses(t, answers, won, http.StatusConflict)
	c.settle(t, i, expectOneOperation(t, answers))
	raceDeletions(t, c, i, modeOf(plan))
}

// A deletion cancels the creation, or comes after it. Either way nothing is left.
func raceDeletionDuringCreation(t *testing.T, c cluster, plan string) {
	i := c.newInstance(t, plan)
	mode := modeOf(plan)
	answers := c.race(t, func(n int) (string, string, any) {
		if n >= racers/2 {
			return "DELETE", i.deletion(i.path(), mode), nil
		}
		return "PUT", i.path() + mode, i.provisionBody(nil)
	})
	var operations []string
	for n, r := range answers {
		if n >= racers/2 {
			expectOneOf(t, r, http.StatusOK, http.StatusAccepted, http.StatusGone)
		} else {
			expectOneOf(t, r, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusUnprocessableEntity)
		}
		if r.Status == http.StatusAccepted {
			operations = append(operations, r.String("operation"))
		}
	}
	last := i.deprovision(t, mode)
	expectOneOf(t, last, http.StatusOK, http.StatusAccepted, http.StatusGone)
	if last.Status == http.StatusAccepted {
		operations = append(operations, last.String("operation"))
	}
	slices.Sort(operations)
	for _, operation := range slices.Compact(operations) {
		c.settle(t, i, operation) // a creation may have been cancelled
	}
	for _, p := range c.replicas {
		expectEmpty(t, i.via(p).deprovision(t, mode), http.StatusGone)
	}
}

// As long as the deletion goes on, its id is taken; from then on it is free, for an instance that has nothing of the
// former one.
func raceCreationAfterDeletion(t *testing.T, c cluster, plan string) {
	i := c.provisioned(t, plan)
	b, old := i.bound(t, nil)
	useAsApplication(t, old)
	mode := modeOf(plan)
	deleted := i.Begin("DELETE", i.deletion(i.path(), mode), nil)
	var deletion string
	if mode == later {
		r := <-deleted
		deletion = r.Expect(t, http.StatusAccepted).String("operation")
	}
	var r testdrive.Response
	ask := 0
	testdrive.Eventually(t, time.Minute, "the id is free again", func() bool {
		ask++
		r = i.via(c.replicas[ask%len(c.replicas)]).provision(t, mode, nil)
		if mode == now { // a request that was faster than the deletion found the old one
			expectOneOf(t, r, http.StatusOK, http.StatusCreated, http.StatusUnprocessableEntity)
		} else {
			expectOneOf(t, r, http.StatusAccepted, http.StatusUnprocessableEntity)
		}
		return r.Status == http.StatusCreated || r.Status == http.StatusAccepted
	})
	if mode == now {
		r := <-deleted
		r.Expect(t, http.StatusOK)
	} else {
		if state := c.settle(t, i, deletion); state != "succeeded" {
			t.Errorf("the deletion %s", state)
		}
		c.settle(t, i, r.String("operation"))
	}
	fresh := i.credentials(t, b.bind(t, nil).Expect(t, http.StatusCreated))
	if fresh.Database == old.Database || fresh.Username == old.Username {
		t.Error("the new instance has the database or the account of the former one")
	}
	n := read[int](t, fresh.open(t), "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()")
	if n != 0 {
		t.Errorf("the new instance has %d tables", n)
	}
	expectRefused(t, old.fields(t))
	raceDeletions(t, c, i, mode)
}

func raceBinds(t *testing.T, c cluster, plan string) {
	i := c.provisioned(t, plan)
	b := i.newBinding()
	same := c.race(t, func(int) (string, string, any) { return "PUT", b.path(), b.with(nil) })
	expectStatuses(t, same, http.StatusCreated, http.StatusOK)
	login := b.credentials(t, same[0])
	for _, r := range same {
		if b.credentials(t, r) != login {
			t.Error("the answers have different credentials")
		}
	}
	login.open(t)
	other := i.newBinding()
	expectStatuses(t, c.race(t, func(n int) (string, string, any) {
		return "PUT", other.path(), other.with(body{"bind_resource": body{"app_guid": strconv.Itoa(n)}})
	}), http.StatusCreated, http.StatusConflict)

	for _, r := range c.race(t, func(int) (string, string, any) { return "DELETE", b.deletion(b.path(), now), nil }) {
		expectOneOf(t, r, http.StatusOK, http.StatusGone)
	}
	expectRefused(t, login.fields(t))
	raceDeletions(t, c, i, now)
}

// A bind that was told to have succeeded and that no later unbind ended has an account; every other one has none.
func raceBindsAndUnbinds(t *testing.T, c cluster, plan string) {
	i := c.provisioned(t, plan)
	for range 5 {
		b := i.newBinding()
		for n, r := range c.race(t, func(n int) (string, string, any) {
			if n%2 == 0 {
				return "DELETE", b.deletion(b.path(), now), nil
			}
			return "PUT", b.path(), b.with(nil)
		}) {
			if n%2 == 0 {
				expectOneOf(t, r, http.StatusOK, http.StatusGone)
			} else {
				expectOneOf(t, r, http.StatusOK, http.StatusCreated, http.StatusUnprocessableEntity)
			}
		}
		login := b.credentials(t, func() testdrive.Response {
			r := b.bind(t, nil)
			expectOneOf(t, r, http.StatusOK, http.StatusCreated)
			return r
		}())
		login.open(t)
		expectEmpty(t, b.unbind(t), http.StatusOK)
		expectRefused(t, login.fields(t))
	}
	raceDeletions(t, c, i, now)
}

// Whatever the order of a change of plan and of binds, every account ends with the limit of the new plan.
func raceUpdates(t *testing.T, c cluster, plan string) {
	i := c.provisioned(t, plan)
	ended, _ := i.bound(t, nil)
	_, large := testdrive.Plan(t, "shared-large")
	fields := body{"service_id": i.serviceID, "plan_id": large}
	bindings := make([]binding, racers)
	for n, r := range c.race(t, func(n int) (string, string, any) {
		bindings[n] = i.newBinding()
		switch n % 4 {
		case 0, 1:
			return "PATCH", i.path(), fields
		case 2:
			return "DELETE", ended.deletion(ended.path(), now), nil
		}
		return "PUT", bindings[n].path(), i.with(nil)
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
	i.Do(t, "PATCH", i.path(), fields).Expect(t, http.StatusOK)
	i.planID = large
	for n, b := range bindings {
		if n%4 == 3 {
			r := b.bind(t, nil)
			expectOneOf(t, r, http.StatusOK, http.StatusCreated)
			expectConnectionLimit(t, i.admin(t), i.credentials(t, r).Username, 40)
		}
	}
	raceDeletions(t, c, i, now)
}

func raceUpdatesAndDeletion(t *testing.T, c cluster, plan string) {
	i := c.provisioned(t, plan)
	i.bound(t, nil)
	_, large := testdrive.Plan(t, "shared-large")
	answers := c.race(t, func(n int) (string, string, any) {
		if n == racers/2 {
			return "DELETE", i.deletion(i.path(), modeOf(plan)), nil
		}
		return "PATCH", i.path() + modeOf(plan), body{"service_id": i.serviceID, "plan_id": large}
	})
	deletion := answers[racers/2]
	expectOneOf(t, deletion, http.StatusOK, http.StatusAccepted)
	if deletion.Status == http.StatusAccepted {
		if state := c.settle(t, i, deletion.String("operation")); state != "succeeded" {
			t.Errorf("the deletion %s", state)
		}
	}
	for _, r := range slices.Delete(answers, racers/2, racers/2+1) {
		expectOneOf(t, r, http.StatusOK, http.StatusAccepted, http.StatusNotFound, http.StatusUnprocessableEntity)
	}
	expectEmpty(t, i.deprovision(t, later), http.StatusGone)
}

// An unbind that cancels a bind just as that one records its success locks the same two rows.
func raceUnbindWithEndOfBind(t *testing.T, c cluster) {
	i := c.provisioned(t, "shared-small")
	b := i.newBinding()
	at, release := c.holdAt(t, "bind: ending as succeeded")
	bound := i.Begin("PUT", b.path(), b.with(nil))
	<-at
	tx, err := c.tasks.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT FROM task WHERE binding_id = $1 FOR UPDATE", b.bindingID); err != nil {
		t.Fatal(err)
	}
	unbound := i.via(c.replicas[1]).Begin("DELETE", b.deletion(b.path(), now), nil)
	c.awaitBlocked(t, 1)
	release()
	c.awaitBlocked(t, 2)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectOneOf(t, <-bound, http.StatusUnprocessableEntity)
	expectEmpty(t, <-unbound, http.StatusOK)
	c.expectNoDeadlock(t)
	raceDeletions(t, c, i, now)
}

// A fetch during which the instance goes must not show it: the deletion, which ends in the same moment, is not in
// progress any more.
func raceFetchWithDeletion(t *testing.T, c cluster) {
	i := c.provisioned(t, "shared-small")
	tx, err := c.tasks.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	rename := func(from, to string) string {
		return "UPDATE instance SET id = '" + to + "' WHERE id = '" + from + "'"
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE task"); err != nil {
		t.Fatal(err)
	}
	fetched := i.Begin("GET", i.path(), nil)
	c.awaitBlocked(t, 1)
	if _, err := tx.Exec(t.Context(), rename(i.id, "away")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectOneOf(t, <-fetched, http.StatusNotFound)
	if _, err := c.tasks.pool.Exec(t.Context(), rename("away", i.id)); err != nil {
		t.Fatal(err)
	}
	raceDeletions(t, c, i, now)
}

// awaitBlocked waits until that many of the brokers' statements wait for a lock in PostgreSQL.
func (c cluster) awaitBlocked(t *testing.T, want int) {
	t.Helper()
	testdrive.Eventually(t, 10*time.Second, "statements wait for a lock", func() bool {
		var n int
		if err := c.tasks.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'mysql-broker' AND wait_event_type = 'Lock'`).
			Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n >= want
	})
}

// holdAt holds the next replica that comes to a point until release is called, and closes at when it has come there.
func (c cluster) holdAt(t *testing.T, point string) (at <-chan struct{}, release func()) {
	t.Helper()
	come, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.faults.Decide(func(_ int, p string) testdrive.Word {
		if p == point {
			once.Do(func() {
				close(come)
				<-gate
			})
		}
		return testdrive.GoOn
	})
	release = sync.OnceFunc(func() {
		c.faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
		close(gate)
	})
	t.Cleanup(release)
	return come, release
}

// A client that goes away at any point, and comes back with the same request at another replica, gets what it asked
// for: the work went on, or is begun anew.
func raceDisconnects(t *testing.T, c cluster) {
	i := c.newInstance(t, "shared-small")
	b := i.newBinding()
	requests := []struct {
		method, path string
		body         any
		repeated     []int // how the repeat may be answered
		undo         func()
	}{
		{"PUT", i.path(), i.provisionBody(nil), []int{http.StatusOK, http.StatusCreated},
			func() { i.deprovision(t, now).Expect(t, http.StatusOK) }},
		{"PUT", b.path(), b.with(nil), []int{http.StatusOK, http.StatusCreated},
			func() { b.unbind(t).Expect(t, http.StatusOK) }},
		{"DELETE", b.deletion(b.path(), now), nil, []int{http.StatusOK, http.StatusGone},
			func() { b.bind(t, nil).Expect(t, http.StatusCreated) }},
		{"DELETE", i.deletion(i.path(), now), nil, []int{http.StatusOK, http.StatusGone},
			func() { i.provision(t, now, nil).Expect(t, http.StatusCreated) }},
	}
	for _, q := range requests {
		send := func(ctx context.Context, replica int) (testdrive.Response, error) {
			return c.replicas[replica].SendFor(ctx, q.method, q.path, q.body, nil)
		}
		for _, point := range c.points(t, func() {
			if _, err := send(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}) {
			q.undo()
			at, release := c.holdAt(t, point)
			ctx, disconnect := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := send(ctx, 1)
				ended <- err
			}()
			select {
			case <-at:
			case <-time.After(time.Minute):
				t.Fatalf("no replica came to %q", point)
			}
			disconnect()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s at %q: the client did not disconnect: %v", q.method, point, err)
			}
			release()
			r, err := send(t.Context(), 2)
			if err != nil {
				t.Fatal(err)
			}
			expectOneOf(t, r, q.repeated...)
		}
	}
	expectEmpty(t, i.deprovision(t, now), http.StatusGone)
}

// points lists the fault points that replicas come to meanwhile, each once.
func (c cluster) points(t *testing.T, run func()) (all []string) {
	t.Helper()
	var lock sync.Mutex
	c.faults.Decide(func(_ int, point string) testdrive.Word {
		lock.Lock()
		defer lock.Unlock()
		if !slices.Contains(all, point) {
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
