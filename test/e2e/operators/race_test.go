package operators

import (
	"net/http"
	"slices"
	"strconv"
	"testing"

	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// races are what clients ask of three replicas at the same time. Each is of an instance of its own, which it deletes.
var races = []struct {
	name  string
	plans []string
	run   func(t *testing.T, c cluster, plan string)
}{
	{"identical provisions", []string{"shared-small", "shared-async", "dedicated-small"}, raceSameProvisions},
	{"deletion during creation", []string{"shared-small", "shared-async", "dedicated-small"}, raceDeletionDuringCreation},
	{"binds and unbinds", []string{"shared-small"}, raceBinds},
	{"updates and binds against a deletion", []string{"shared-small", "shared-async"}, raceDeletionWithOthers},
}

// Replicas share only PostgreSQL and the servers, and each must know at once what the others do. In the end, nothing is
// left of what was deleted.
func TestFaultRacesOverReplicas(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := testdrive.Environment(t, private)
	var c cluster
	for n := range c {
		c[n] = testdrive.StartPlatform(t, private, env)
	}
	t.Run("together", func(t *testing.T) {
		for _, r := range races {
			for _, plan := range r.plans {
				t.Run(r.name+" of "+plan, func(t *testing.T) {
					t.Parallel()
					r.run(t, c, plan)
				})
			}
		}
	})
	var deadlocks int
	testdrive.OpenTasks(t, env).Scan(t, &deadlocks, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
	if deadlocks != 0 {
		t.Errorf("%d deadlocks in PostgreSQL", deadlocks)
	}
	for _, found := range audit.Check(t.Context(), audit.World{PostgresURL: env["DATABASE_URL"],
		Keyset: env["ENCRYPTION_KEYSET"], Shared: c[0].Admin(t), Launchers: testdrive.Inspectors(env)}) {
		t.Error(found)
	}
}

// cluster is three replicas of one broker.
type cluster [3]testdrive.Platform

// statuses are those with which a method may be answered in a race; 422 is for a ConcurrencyError.
type statuses map[string][]int

// race sends requests at the same time. All of a method that begin an operation begin the same one. race waits for the
// ends of operations, of which every replica tells the same, and returns their states by method.
func (c cluster) race(t *testing.T, i testdrive.Instance, of func(n int) (method, path string, body any),
	possible statuses) ([]testdrive.Response, map[string]string) {
	t.Helper()
	answers := testdrive.RaceOver(t, c[:], of)
	begun := map[string]string{}
	for n, r := range answers {
		method, _, _ := of(n)
		if !slices.Contains(possible[method], r.Status) || r.Status == http.StatusUnprocessableEntity && r.String("error") != "ConcurrencyError" {
			t.Errorf("%s is answered %d instead of one of %v: %s", method, r.Status, possible[method], r.Raw)
		}
		if r.Status != http.StatusAccepted {
			continue
		}
		if other, found := begun[method]; found && other != r.String("operation") {
			t.Errorf("%s begins %s and %s", method, other, r.String("operation"))
		}
		begun[method] = r.String("operation")
	}
	for method, operation := range begun {
		begun[method], _ = i.AwaitOperation(t, i.ID, operation)
		for _, p := range c {
			if r := i.Via(p).Poll(t, "?operation="+operation).Expect(t, http.StatusOK); r.String("state") != begun[method] {
				t.Errorf("after %q, a poll was answered %s", begun[method], r.Raw)
			}
		}
	}
	return answers, begun
}

// delete deletes an instance several times at once. All deletions that find it are one.
func (c cluster) delete(t *testing.T, i testdrive.Instance, mode string) {
	t.Helper()
	won := http.StatusOK
	if mode == testdrive.Async {
		won = http.StatusAccepted
	}
	answers, states := c.race(t, i, func(int) (string, string, any) { return "DELETE", i.Deletion(i.Path(), mode), nil },
		statuses{"DELETE": {won, http.StatusGone}})
	if states["DELETE"] == "failed" || !slices.ContainsFunc(answers, func(r testdrive.Response) bool { return r.Status == won }) {
		t.Errorf("the deletion has failed, or was nobody's: %v", states)
	}
	for _, p := range c {
		testdrive.ExpectEmpty(t, i.Via(p).Deprovision(t, testdrive.Async), http.StatusGone)
		i.Via(p).Fetch(t).Expect(t, http.StatusNotFound)
	}
}

// modeOf is how a platform asks for an operation on a plan.
func modeOf(plan string) string {
	if plan == "shared-small" {
		return testdrive.Sync
	}
	return testdrive.Async
}

func raceSameProvisions(t *testing.T, c cluster, plan string) {
	i, mode := c[0].NewInstance(t, plan), modeOf(plan)
	answers, states := c.race(t, i, func(int) (string, string, any) { return "PUT", i.Path() + mode, i.ProvisionBody(nil) },
		statuses{"PUT": {http.StatusOK, http.StatusCreated, http.StatusAccepted}})
	if states["PUT"] == "failed" {
		t.Fatal("the creation has failed")
	}
	if mode == testdrive.Sync {
		testdrive.ExpectStatuses(t, answers, http.StatusCreated, http.StatusOK)
	}
	_, login := i.Bound(t, nil)
	login.Open(t)
	testdrive.ExpectEmpty(t, i.Via(c[1]).Provision(t, mode, nil), http.StatusOK)
	c.delete(t, i, mode)
	if testdrive.Connect(t, login.Fields(t)).PingContext(t.Context()) == nil {
		t.Error("the login outlived the instance")
	}
}

// A deletion cancels the creation, or comes after it. Either way nothing is left.
func raceDeletionDuringCreation(t *testing.T, c cluster, plan string) {
	i, mode := c[0].NewInstance(t, plan), modeOf(plan)
	c.race(t, i, func(n int) (string, string, any) {
		if n >= testdrive.Racers/2 {
			return "DELETE", i.Deletion(i.Path(), mode), nil
		}
		return "PUT", i.Path() + mode, i.ProvisionBody(nil)
	}, statuses{
		"DELETE": {http.StatusOK, http.StatusAccepted, http.StatusGone},
		"PUT":    {http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusUnprocessableEntity},
	})
	i.Remove(t)
	for _, p := range c {
		testdrive.ExpectEmpty(t, i.Via(p).Deprovision(t, mode), http.StatusGone)
	}
}

// A bind that succeeded and was not unbound later has an account; every other one has none.
func raceBinds(t *testing.T, c cluster, plan string) {
	i := c[0].Provisioned(t, plan, nil)
	b, other := i.NewBinding(), i.NewBinding()
	same, _ := c.race(t, i, func(int) (string, string, any) { return "PUT", b.Path(), b.With(nil) },
		statuses{"PUT": {http.StatusCreated, http.StatusOK}})
	testdrive.ExpectStatuses(t, same, http.StatusCreated, http.StatusOK)
	login := b.Credentials(t, same[0])
	for _, r := range same {
		if b.Credentials(t, r) != login {
			t.Error("the answers have different credentials")
		}
	}
	different, _ := c.race(t, i, func(n int) (string, string, any) {
		return "PUT", other.Path(), other.With(body{"bind_resource": body{"app_guid": strconv.Itoa(n)}})
	}, statuses{"PUT": {http.StatusCreated, http.StatusConflict}})
	testdrive.ExpectStatuses(t, different, http.StatusCreated, http.StatusConflict)

	unbind := func(int) (string, string, any) { return "DELETE", b.Deletion(b.Path(), testdrive.Sync), nil }
	for range 5 {
		login.Open(t)
		c.race(t, i, unbind, statuses{"DELETE": {http.StatusOK, http.StatusGone}})
		testdrive.ExpectRefused(t, login.Fields(t))
		c.race(t, i, func(n int) (string, string, any) {
			if n%2 == 0 {
				return unbind(n)
			}
			return "PUT", b.Path(), b.With(nil)
		}, statuses{"DELETE": {http.StatusOK, http.StatusGone},
			"PUT": {http.StatusOK, http.StatusCreated, http.StatusUnprocessableEntity}})
		b.Bind(t, nil)
		login = b.Credentials(t, b.Bind(t, nil).Expect(t, http.StatusOK))
	}
	c.delete(t, i, testdrive.Sync)
	testdrive.ExpectRefused(t, login.Fields(t))
}

// Whatever the order, no account outlives the instance.
func raceDeletionWithOthers(t *testing.T, c cluster, plan string) {
	i, mode := c[0].Provisioned(t, plan, nil), modeOf(plan)
	i.Bound(t, nil)
	_, large := testdrive.Plan(t, "shared-large")
	_, states := c.race(t, i, func(n int) (string, string, any) {
		switch {
		case n == testdrive.Racers/2:
			return "DELETE", i.Deletion(i.Path(), mode), nil
		case n%2 == 0:
			return "PATCH", i.Path() + mode, body{"service_id": i.ServiceID, "plan_id": large}
		}
		b := i.NewBinding()
		return "PUT", b.Path(), b.With(nil)
	}, statuses{
		"DELETE": {http.StatusOK, http.StatusAccepted},
		"PATCH":  {http.StatusOK, http.StatusAccepted, http.StatusNotFound, http.StatusUnprocessableEntity},
		"PUT":    {http.StatusCreated, http.StatusNotFound, http.StatusUnprocessableEntity},
	})
	if states["DELETE"] == "failed" {
		t.Error("the deletion has failed")
	}
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Async), http.StatusGone)
}
