package e2e

import (
	"net/http"
	"slices"
	"strconv"
	"testing"

	"mysql-broker/test/audit"
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
func TestRacesOverReplicas(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
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
			Keyset: env["ENCRYPTION_KEYSET"], Shared: c.replicas[0].admin(t), Launchers: testdrive.Inspectors(env)}) {
			t.Error(found) // all instances are deleted
		}
	})
}

func raceSameProvisions(t *testing.T, c cluster, plan string) {
	i := c.newInstance(t, plan)
	release := func() {}
	if plan == "dedicated-small" {
		release = c.replicas[0].holdLaunches(t)
	}
	answers := c.race(t, func(int) (string, string, any) { return "PUT", i.path() + modeOf(plan), i.provisionBody(nil) })
	if modeOf(plan) == now {
		expectStatuses(t, answers, http.StatusCreated, http.StatusOK)
	}
	for _, r := range answers {
		expectOneOf(t, r, http.StatusOK, http.StatusCreated, http.StatusAccepted)
	}
	operation := expectOneOperation(t, answers)
	if plan == "dedicated-small" {
		for n, p := range c.replicas {
			expectError(t, i.via(p).newBinding().bind(t, nil), "ConcurrencyError")
			expectError(t, i.via(p).updatePlan(t, later, "dedicated-large"), "ConcurrencyError")
			i.via(p).provision(t, later, body{"space_guid": strconv.Itoa(n)}).Expect(t, http.StatusConflict)
		}
		release()
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
	testdrive.Eventually(t, testdrive.Patience, "the id is free again", func() bool {
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

// A bind that succeeded and was not unbound later has an account; every other one has none.
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

// Identical updates all succeed. Whatever the order of an update and of binds, every account ends with the new plan's limit.
func raceUpdates(t *testing.T, c cluster, plan string) {
	i := c.provisioned(t, plan)
	ended, _ := i.bound(t, nil)
	_, large := testdrive.Plan(t, "shared-large")
	fields := body{"service_id": i.serviceID, "plan_id": large}
	for _, r := range c.race(t, func(int) (string, string, any) { return "PATCH", i.path(), fields }) {
		r.Expect(t, http.StatusOK) // the same update is one operation
	}
	i.updatePlan(t, now, "shared-small").Expect(t, http.StatusOK)
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
			expectConnectionLimit(t, i.admin(t), i.credentials(t, r).Username, 60)
		}
	}
	raceDeletions(t, c, i, now)
}

// Whatever the order, no account outlives the instance.
func raceDeletionWithOthers(t *testing.T, c cluster, plan string) {
	i := c.provisioned(t, plan)
	i.bound(t, nil)
	_, large := testdrive.Plan(t, "shared-large")
	answers := c.race(t, func(n int) (string, string, any) {
		switch {
		case n == racers/2:
			return "DELETE", i.deletion(i.path(), modeOf(plan)), nil
		case n%2 == 0:
			return "PATCH", i.path() + modeOf(plan), body{"service_id": i.serviceID, "plan_id": large}
		}
		b := i.newBinding()
		return "PUT", b.path(), b.with(nil)
	})
	deletion := answers[racers/2]
	expectOneOf(t, deletion, http.StatusOK, http.StatusAccepted)
	if deletion.Status == http.StatusAccepted {
		if state := c.settle(t, i, deletion.String("operation")); state != "succeeded" {
			t.Errorf("the deletion %s", state)
		}
	}
	for n, r := range answers {
		switch {
		case n == racers/2:
		case n%2 == 0:
			expectOneOf(t, r, http.StatusOK, http.StatusAccepted, http.StatusNotFound, http.StatusUnprocessableEntity)
		case r.Status == http.StatusCreated:
			if account := i.credentials(t, r).Username; accountExists(t, c.replicas[0], account) {
				t.Errorf("the account %s is left on the server", account)
			}
		default:
			expectOneOf(t, r, http.StatusNotFound, http.StatusUnprocessableEntity)
		}
	}
	expectEmpty(t, i.deprovision(t, later), http.StatusGone)
}
