package ha

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// The standby that is promoted is asynchronous, and lacks the last commits. Brokers are held; nothing is dropped.
func TestPostgresLosesCommits(t *testing.T) {
	t.Parallel()
	all := servers.Chosen(t, servers.AllMySQL(t))
	s := testdrive.Private(t, all[len(all)-1].Flavour) // whatever flavour: it is about PostgreSQL
	pair := testdrive.StartPostgresPair(t, false)
	env := testdrive.Environment(t, s)
	env["ANSWER_TIMEOUT"] = "2s" // some servers do not respond
	env["DATABASE_URL"] = pair.URL
	p := newPlatform(t, testdrive.Start(t, env), testdrive.Start(t, env))
	kept, doomed, lost := uuid.NewString(), uuid.NewString(), uuid.NewString()
	app := map[string]audit.Credentials{}
	provision := func(id string) {
		t.Helper()
		if err := p.provision(id); err != nil {
			t.Fatal(err)
		}
		var err error
		if app[id], err = p.bind(id, uuid.NewString()); err != nil {
			t.Fatal(err)
		}
		if err := audit.Write(t.Context(), app[id], "note of "+id); err != nil {
			t.Fatal(err)
		}
	}
	provision(kept)
	provision(doomed)
	testdrive.Eventually(t, limits.Stuck, "the standby has both", func() bool {
		return pair.Standby.Has(t, "SELECT FROM instance WHERE id = '"+doomed+"' AND state = 'ready'") &&
			!pair.Standby.Has(t, "SELECT FROM task WHERE state = 'in progress'")
	})
	pair.Standby.Kill(t)
	provision(lost)
	if err := p.deprovision(doomed, p.small); err != nil {
		t.Fatal(err)
	}
	pair.Primary.Kill(t)
	pair.Standby.Start(t)
	pair.Promote(t)
	for _, broker := range p.brokers {
		testdrive.Eventually(t, limits.Stuck, "the broker is held", func() bool {
			return broker.Do(t, "GET", "/readyz", nil).String("status") == "held"
		})
	}
	for _, id := range []string{kept, lost} {
		r := p.brokers[0].Do(t, "DELETE", "/v2/service_instances/"+id+p.query(p.small), nil)
		if r.Status != http.StatusServiceUnavailable {
			t.Errorf("a deletion was answered %d: %s", r.Status, r.Raw)
		}
	}
	operator := maps.Clone(env)
	delete(operator, "BROKER_USERNAME")
	delete(operator, "BROKER_PASSWORD")
	report := testdrive.Run(t, operator, "recover")
	t.Logf("recover: %s%s", report.Stdout, report.Stderr)
	for _, name := range []string{app[lost].Database, doomed} {
		if !strings.Contains(report.Stdout+report.Stderr, name) {
			t.Errorf("recover does not name %s", name)
		}
	}
	applied := testdrive.Run(t, operator, "recover", "--apply")
	t.Logf("recover --apply: %s%s", applied.Stdout, applied.Stderr)
	for _, id := range []string{kept, lost} {
		db, err := app[id].Open()
		if err != nil {
			t.Fatal(err)
		}
		var notes int
		if err := db.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM note").Scan(&notes); err != nil || notes != 1 {
			t.Errorf("the database of %s has %d notes, %v", id, notes, err)
		}
		db.Close()
	}
}
