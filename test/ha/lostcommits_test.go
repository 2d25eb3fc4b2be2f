package ha

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	p := newWorld(t, testdrive.Start(t, env), testdrive.Start(t, env))
	provision := func() audit.Binding {
		t.Helper()
		b := p.bound(t)
		require.NoError(t, audit.Write(t.Context(), b.Credentials, "note of "+b.InstanceID))
		return b
	}
	kept, doomed := provision(), provision().InstanceID
	testdrive.Eventually(t, limits.Stuck, "the standby has both", func() bool {
		return pair.Standby.Has(t, "SELECT FROM instance WHERE id = '"+doomed+"' AND state = 'ready'") &&
			!pair.Standby.Has(t, "SELECT FROM task WHERE state = 'in progress'")
	})
	pair.Standby.Kill(t)
	lost := provision()
	require.NoError(t, p.delete(audit.Instance{ID: doomed, PlanID: p.small.ID}))
	pair.Primary.Kill(t)
	pair.Standby.Start(t)
	pair.Promote(t)
	for _, broker := range p.brokers {
		testdrive.Eventually(t, limits.Stuck, "the broker is held", func() bool {
			return broker.Do(t, "GET", "/readyz", nil).String("status") == "held"
		})
	}
	for _, b := range []audit.Binding{kept, lost} {
		r := p.brokers[0].Do(t, "DELETE", p.small.Deprovision(b.InstanceID).Path, nil)
		assert.Equal(t, http.StatusServiceUnavailable, r.Status, "a deletion was answered %d: %s", r.Status, r.Raw)
	}
	operator := maps.Clone(env)
	delete(operator, "BROKER_USERNAME")
	delete(operator, "BROKER_PASSWORD")
	report := testdrive.Run(t, operator, "recover")
	t.Logf("recover: %s%s", report.Stdout, report.Stderr)
	for _, name := range []string{lost.Credentials.Database, doomed} {
		assert.True(t, strings.Contains(report.Stdout+report.Stderr, name), "recover does not name %s", name)
	}
	applied := testdrive.Run(t, operator, "recover", "--apply")
	t.Logf("recover --apply: %s%s", applied.Stdout, applied.Stderr)
	for _, b := range []audit.Binding{kept, lost} {
		db, err := b.Credentials.Open()
		require.NoError(t, err)
		var notes int
		err = db.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM note").Scan(&notes)
		assert.True(t, err == nil && notes == 1, "the database of %s has %d notes, %v", b.InstanceID, notes, err)
		db.Close()
	}
}
