package e2e

import (
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestBindingLimit requests more bindings at the same time than the plan allows: without the limit, the bindings of one
// instance could take all connections of a server.
func TestBindingLimit(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := bindLimitEnvironment(t, s)
		p := startPlatform(t, s, env)
		other := startPlatform(t, s, env) // another replica
		i := p.provisioned(t, "shared-small", nil)

		made := bindAtOnce(t, 4*bindLimit, i, i.via(other))
		if len(made) != bindLimit {
			t.Fatalf("%d bindings were made where %d are allowed", len(made), bindLimit)
		}
		refused := i.newBinding()
		expectError(t, refused.bind(t, nil), "BindingLimitReached", "has 3 service bindings", "shared-small allows 3",
			"Delete one", "larger plan")
		// Cloud Controller sends this after a refusal of a code that it does not know. It must end nothing.
		expectEmpty(t, refused.unbind(t), http.StatusGone)
		made[0].bind(t, nil).Expect(t, http.StatusOK) // a repeat needs no place
		i.expectBindings(t, bindLimit, bindLimit)
		if out := testdrive.Run(t, env, "servers", "shared-1").Expect(t, 0); !regexp.MustCompile(
			`(?m)^sold_connections:\s+` + strconv.Itoa(bindLimit*30) + "$").MatchString(out.Stdout) {
			t.Errorf("mysql-broker servers: %s", out.Stdout)
		}

		// An account that outlives its binding takes no place.
		definer := i.credentials(t, made[0].fetch(t).Expect(t, http.StatusOK))
		exec(t, definer.open(t), "CREATE VIEW one AS SELECT 1 AS one")
		made[0].unbind(t).Expect(t, http.StatusOK)
		if n := read[int](t, p.admin(t), "SELECT COUNT(*) FROM mysql.user WHERE user = ?", definer.Username); n != 1 {
			t.Fatalf("the account of the view's definer is there %d times", n)
		}
		i.bound(t, nil)
		expectError(t, i.newBinding().bind(t, nil), "BindingLimitReached")

		expectEmpty(t, i.updatePlan(t, now, "shared-large"), http.StatusOK)
		made = bindAtOnce(t, 2*bindLimitLarge, i, i.via(other))
		if len(made) != bindLimitLarge-bindLimit {
			t.Fatalf("%d more bindings were made where %d are allowed", len(made), bindLimitLarge-bindLimit)
		}
		i.expectBindings(t, bindLimitLarge, bindLimitLarge)
		expectError(t, i.updatePlan(t, now, "shared-small"), "PlanChangeNotSupported", "has 5 service bindings",
			"shared-small allows 3", "Delete 2")
		for _, b := range made {
			b.unbind(t).Expect(t, http.StatusOK)
		}
		expectEmpty(t, i.updatePlan(t, now, "shared-small"), http.StatusOK)
		i.expectBindings(t, bindLimit, bindLimit)
	})
}

// bindAtOnce requests n bindings at the same time, alternating between brokers, and returns those that were created.
func bindAtOnce(t *testing.T, n int, through ...instance) []binding {
	t.Helper()
	return createdAtOnce(t, n, func(k int) (binding, func() (testdrive.Response, error)) {
		b := through[k%len(through)].newBinding()
		return b, func() (testdrive.Response, error) { return b.Send("PUT", b.path(), b.with(nil), nil) }
	}, func(r testdrive.Response) bool {
		return r.Status == http.StatusUnprocessableEntity && r.String("error") == "BindingLimitReached"
	})
}

// createdAtOnce sends n requests at the same time. For each one, request returns the resource and the function that
// sends it. createdAtOnce returns what was created, and fails the test if any other request was not refused as refused
// says.
func createdAtOnce[Thing any](t *testing.T, n int, request func(n int) (Thing, func() (testdrive.Response, error)),
	refused func(testdrive.Response) bool) (created []Thing) {
	t.Helper()
	things := make([]Thing, n)
	responses := make([]testdrive.Response, n)
	var all sync.WaitGroup
	for k := range n {
		var send func() (testdrive.Response, error)
		things[k], send = request(k)
		all.Go(func() {
			var err error
			if responses[k], err = send(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for k, r := range responses {
		if r.Status == http.StatusCreated {
			created = append(created, things[k])
		} else if !refused(r) {
			t.Errorf("status %d: %s", r.Status, r.Raw)
		}
	}
	return created
}

// expectBindings fails the test unless the instance reports this number of bindings and this limit.
func (i instance) expectBindings(t *testing.T, want, allowed int) {
	t.Helper()
	r := i.fetch(t).Expect(t, http.StatusOK)
	n, limit := field(r.Body, "metadata", "attributes", "bindings"), field(r.Body, "metadata", "attributes", "max_bindings")
	if n != float64(want) || limit != float64(allowed) {
		t.Errorf("%v of %v bindings instead of %d of %d: %s", n, limit, want, allowed, r.Raw)
	}
}
