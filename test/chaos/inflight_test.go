package chaos

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"mysql-broker/test/audit"
	"mysql-broker/test/testdrive"
)

// A statement that a broker had sent arrives at the MySQL server when another has taken the task over, finished it and
// deleted the outcome. The lock on the server keeps it from taking effect; without that lock it leaves an orphan, and
// the audit says so.
func testStatementInFlight(t *testing.T, c chaos) {
	for name, fences := range map[string]string{"with fences": "", "without fences": "off"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.flavour, c.tally, map[string]string{"FAULT_FENCES": fences})
			database := w.delayStatement(t)
			if fences == "" {
				w.check(t, "after the statement has arrived")
				return
			}
			orphan := "Orphan: on the shared server, database " + database + "."
			if found := w.discrepancies(t.Context()); len(found) != 1 || found[0] != orphan {
				t.Errorf("the audit says %q instead of %q", found, orphan)
			}
		})
	}
}

// delayStatement keeps a CREATE DATABASE between a broker and the server until its instance is deleted. It returns the
// database's name.
func (w *world) delayStatement(t *testing.T) (database string) {
	t.Helper()
	proxy, env := w.behindProxy(t)
	victim := testdrive.Start(t, env)
	frozen := make(chan time.Time, 1)
	w.watch.order(victim, func(point string) testdrive.Word {
		if point == "before: CREATE DATABASE" {
			proxy.Freeze()
			frozen <- time.Now()
		}
		return testdrive.GoOn
	})
	x := target{workflow: workflow{kind: provision, plan: planNamed(t, "shared-small")}}
	x.instance = audit.Instance{ID: uuid.NewString(), PlanID: x.plan.id}
	q := x.request()
	answers := victim.Begin(q.method, q.path, q.body)
	began := testdrive.Receive(t, frozen, "the broker sends its statement")
	w.awaitRenewal(t, q) // some time after the statement was sent
	victim.Pause(t)
	t.Cleanup(func() { victim.Signal(t, syscall.SIGCONT) })
	w.tally.pause()
	if err := w.tasks.QueryRow(t.Context(), "SELECT database_name FROM instance WHERE id = $1", x.instance.ID).
		Scan(&database); err != nil {
		t.Fatal(err)
	}
	for _, q := range []request{q, x.plan.deprovision(x.instance.ID)} {
		got, err := w.carryOut(q)
		if err == nil {
			err = w.learn(&x, q, got)
		}
		if err != nil {
			t.Fatalf("%s while a statement is in flight since %v: %v", q.kind, time.Since(began), err)
		}
	}
	w.check(t, "before the statement arrives")

	proxy.Release()
	victim.Signal(t, syscall.SIGCONT)
	<-answers
	return database
}

// behindProxy is the environment of a broker that reaches the shared server through a proxy.
func (w *world) behindProxy(t *testing.T) (*testdrive.Proxy, map[string]string) {
	t.Helper()
	var shared []map[string]any
	if err := json.Unmarshal([]byte(w.env["MYSQL_SERVERS"]), &shared); err != nil {
		t.Fatal(err)
	}
	direct := fmt.Sprint(shared[0]["uri"])
	proxy, through := testdrive.ProxyURL(t, direct)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	shared[0]["uri"], shared[0]["host"], shared[0]["port"] = through, host, json.Number(port)
	described, err := json.Marshal(shared)
	if err != nil {
		t.Fatal(err)
	}
	env := maps.Clone(w.env)
	env["MYSQL_SERVERS"] = string(described)
	return proxy, env
}

// awaitRenewal waits until the lease on the request's task is renewed.
func (w *world) awaitRenewal(t *testing.T, q request) {
	t.Helper()
	leaseUntil := func() (until time.Time) {
		if err := w.tasks.QueryRow(t.Context(), "SELECT lease_until FROM task WHERE instance_id = $1", q.instanceID).
			Scan(&until); err != nil {
			t.Fatal(err)
		}
		return until
	}
	before := leaseUntil()
	testdrive.Eventually(t, patience, "the lease is renewed", func() bool { return leaseUntil().After(before) })
}
