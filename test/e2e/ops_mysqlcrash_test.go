package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A shared server is killed in the middle of one operation of each kind and comes back soon or late. Each operation is
// carried out, or fails and leaves nothing behind; asked for again, it works.
func TestMySQLCrash(t *testing.T) {
	t.Parallel()
	t.Run("for a second", func(t *testing.T) {
		t.Parallel()
		servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) { crashMySQL(t, s, time.Second) })
	})
	t.Run("for 20 seconds", func(t *testing.T) { // how long a broker waits does not depend on the flavour
		t.Parallel()
		crashMySQL(t, servers.AllMySQL(t)[0], 20*time.Second)
	})
}

func crashMySQL(t *testing.T, s servers.MySQL, down time.Duration) {
	server := testdrive.StartCrashable(t, s.Flavour)
	env := testdrive.Environment(t, server.MySQL)
	p := startPlatform(t, server.MySQL, env)
	other := startPlatform(t, server.MySQL, env)
	admin, tasks := p.admin(t), openTasks(t, env)
	made, bound, leaving := p.ownInstance(t, "shared-small"), p.ownInstance(t, "shared-small"),
		p.ownInstance(t, "shared-small")
	bound.provision(t, now, nil).Expect(t, http.StatusCreated)
	leaving.provision(t, now, nil).Expect(t, http.StatusCreated)
	unbound, _ := bound.bound(t, nil)
	binding := bound.newBinding()

	stall(t, admin)
	operations := []operation{
		{"provision", made.id, "", func() (string, string, any) {
			return "PUT", made.path(), made.provisionBody(nil)
		}, []int{201, 200}},
		{"bind", bound.id, binding.bindingID, func() (string, string, any) {
			return "PUT", binding.path(), binding.with(nil)
		}, []int{201, 200}},
		{"unbind", bound.id, unbound.bindingID, func() (string, string, any) {
			return "DELETE", bound.deletion(unbound.path(), now), nil
		}, []int{200, 410}},
		{"deprovision", leaving.id, "", func() (string, string, any) {
			return "DELETE", leaving.deletion(leaving.path(), now), nil
		}, []int{200, 410}},
	}
	answers := make([]<-chan testdrive.Response, len(operations))
	for n, o := range operations {
		answers[n] = p.Begin(o.request())
	}
	ends := "DROP USER"
	if s.Flavour == "mariadb" { // which would drop a definer, too: accounts are locked first
		ends = "ALTER USER"
	}
	for _, statement := range []string{"CREATE DATABASE", "CREATE USER", ends, "DROP DATABASE"} {
		awaitStatement(t, admin, statement)
	}
	let := server.Crash(t)
	time.AfterFunc(down, let)
	for n, o := range operations {
		o.expectAnswer(t, <-answers[n])
	}
	testdrive.Eventually(t, time.Minute, "the server is back", func() bool { return admin.PingContext(t.Context()) == nil })
	for _, o := range operations {
		o.repeat(t, other, tasks)
	}
	binding.instance = bound.via(other)
	binding.credentials(t, binding.fetch(t).Expect(t, http.StatusOK)).open(t)
	expectTenants(t, admin, 2, 1)
}

// operation is a request, and what it is answered with when it has been carried out, now or earlier.
type operation struct {
	name, instanceID, bindingID string
	request                     func() (method, path string, fields any)
	good                        []int
}

func (o operation) expectAnswer(t *testing.T, r testdrive.Response) {
	t.Helper()
	if slices.Contains(o.good, r.Status) {
		return
	}
	if r.Status != http.StatusServiceUnavailable || r.String("description") == "" || r.Header.Get("Retry-After") == "" {
		t.Errorf("%s: answered %d, Retry-After %q: %s", o.name, r.Status, r.Header.Get("Retry-After"), r.Raw)
	}
}

// repeat sends the request again once the first has ended: what failed was undone, or is finished now.
func (o operation) repeat(t *testing.T, p platform, tasks tasks) {
	t.Helper()
	testdrive.Eventually(t, 2*time.Minute, o.name+" ends", func() bool {
		_, state := tasks.latest(t, o.instanceID, o.bindingID)
		return state != "in progress"
	})
	method, path, fields := o.request()
	if r := p.Do(t, method, path, fields); !slices.Contains(o.good, r.Status) {
		t.Errorf("%s, asked for again, is answered %d: %s", o.name, r.Status, r.Raw)
	}
}

// What failed while a server was away is asked for again when it is back: the answer tells how the server is now, not how
// the first attempt ended, which may still wait to be undone.
func TestRepeatsAfterMySQLCameBack(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		server := testdrive.StartCrashable(t, s.Flavour)
		p := startPlatform(t, server.MySQL, testdrive.Environment(t, server.MySQL))
		admin := p.admin(t)
		i := p.ownInstance(t, "shared-small")
		i.provision(t, now, nil).Expect(t, http.StatusCreated)
		b := i.newBinding()
		let := server.Crash(t)
		b.bind(t, nil).Expect(t, http.StatusServiceUnavailable)
		let()
		testdrive.Eventually(t, time.Minute, "the server is back", func() bool { return admin.PingContext(t.Context()) == nil })
		i.credentials(t, b.bind(t, nil).Expect(t, http.StatusCreated)).open(t)
		expectTenants(t, admin, 1, 1)
		i.deprovision(t, now).Expect(t, http.StatusOK)
	})
}
