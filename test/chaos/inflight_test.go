package chaos

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/platform"
	"mysql-broker/test/testdrive"
)

// A statement that a broker had sent arrives at the MySQL server when another has taken the task over, finished it and
// deleted the outcome. The lock on the server keeps it from taking effect; without that lock it leaves an orphan, and
// the audit says so.
func testStatementInFlight(t *testing.T, c chaos) {
	for name, locks := range map[string]string{"with session locks": "", "without session locks": "off"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.flavour, c.tally, map[string]string{"FAULT_SESSION_LOCKS": locks})
			d := w.delayStatement(t)
			d.proxy.Release()
			if locks == "" {
				testdrive.Eventually(t, limits.Stuck, "the statement's session is gone", func() bool {
					return slices.ContainsFunc(d.sessions, func(id int64) bool { return !w.connected(t, id) })
				})
				d.wake(t)
				w.Check(t, "after the statement has arrived")
				return
			}
			var found []string
			testdrive.Eventually(t, limits.Stuck, "the statement takes effect", func() bool {
				found = w.Discrepancies(t.Context())
				return len(found) > 0
			})
			d.wake(t)
			orphan := "Orphan: on the shared server, database " + d.database + "."
			if len(found) != 1 || found[0] != orphan {
				t.Errorf("the audit says %q instead of %q", found, orphan)
			}
		})
	}
}

// delayed is a statement that the proxy holds back, of a broker that stands still.
type delayed struct {
	proxy    *testdrive.Proxy
	victim   *testdrive.Broker
	answers  <-chan testdrive.Response
	sessions []int64 // that the broker had when it sent the statement
	database string
}

// wake has the broker go on, and returns when it has answered.
func (d delayed) wake(t *testing.T) {
	t.Helper()
	d.victim.Signal(t, syscall.SIGCONT)
	select {
	case <-d.answers:
	case <-time.After(limits.Stuck):
		t.Error("no answer when the broker went on")
	}
}

// delayStatement keeps a CREATE DATABASE between a broker and the server until its instance is deleted.
func (w *world) delayStatement(t *testing.T) delayed {
	t.Helper()
	proxy, env := w.behindProxy(t)
	d := delayed{proxy: proxy, victim: testdrive.Start(t, env)}
	frozen := make(chan time.Time, 1)
	w.watch.order(d.victim, func(point string) testdrive.Word {
		if point == "before: CREATE DATABASE" {
			proxy.Freeze()
			frozen <- time.Now()
		}
		return testdrive.GoOn
	})
	x := platform.Target{Workflow: platform.Workflow{Kind: platform.Provision, Plan: platform.NamedPlan(t, "shared-small")}}
	x.Instance = audit.Instance{ID: uuid.NewString(), PlanID: x.Plan.ID}
	q := x.Request()
	d.answers = d.victim.Begin(q.Method, q.Path, q.Body)
	began := testdrive.Receive(t, frozen, "the broker sends its statement")
	d.sessions = w.sessionsFrom(t, proxy.Sources())
	w.awaitRenewal(t, q) // some time after the statement was sent
	d.victim.Pause(t)
	t.Cleanup(func() { d.victim.Signal(t, syscall.SIGCONT) })
	w.tally.pause()
	if err := w.Tasks.QueryRow(t.Context(), "SELECT database_name FROM instance WHERE id = $1", x.Instance.ID).
		Scan(&d.database); err != nil {
		t.Fatal(err)
	}
	for _, q := range []platform.Request{q, x.Plan.Deprovision(x.Instance.ID)} {
		got, err := w.Run(q)
		if err == nil {
			err = w.Learn(&x, q, got)
		}
		if err != nil {
			t.Fatalf("%s while a statement is in flight since %v: %v", q.Kind, time.Since(began), err)
		}
	}
	w.Check(t, "before the statement arrives")
	return d
}

// sessionsFrom lists the sessions on the shared server whose clients have these ports; those that just begin may miss.
func (w *world) sessionsFrom(t *testing.T, ports []int) (ids []int64) {
	t.Helper()
	for _, port := range ports {
		var id int64
		err := w.Audit.Shared.QueryRowContext(t.Context(), `SELECT id FROM information_schema.processlist
			WHERE SUBSTRING_INDEX(host, ':', -1) = ?`, fmt.Sprint(port)).Scan(&id)
		switch {
		case err == nil:
			ids = append(ids, id)
		case !errors.Is(err, sql.ErrNoRows):
			t.Fatal(err)
		}
	}
	if len(ids) == 0 {
		t.Fatalf("no session comes from any of the ports %v", ports)
	}
	return ids
}

// connected reports whether a session on the shared server has not ended.
func (w *world) connected(t *testing.T, id int64) bool {
	t.Helper()
	var n int
	if err := w.Audit.Shared.QueryRowContext(t.Context(),
		"SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?", id).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n > 0
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
func (w *world) awaitRenewal(t *testing.T, q platform.Request) {
	t.Helper()
	leaseUntil := func() (until time.Time) {
		if err := w.Tasks.QueryRow(t.Context(), "SELECT lease_until FROM task WHERE instance_id = $1", q.InstanceID).
			Scan(&until); err != nil {
			t.Fatal(err)
		}
		return until
	}
	before := leaseUntil()
	testdrive.Eventually(t, limits.Stuck, "the lease is renewed", func() bool { return leaseUntil().After(before) })
}
