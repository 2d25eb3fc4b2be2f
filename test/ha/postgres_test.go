package ha

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// promotionTime is how long after the promotion the last request may be refused.
const promotionTime = 10 * time.Second

// The primary of the broker's PostgreSQL is killed under load, and its synchronous standby is promoted.
func TestPostgresFailover(t *testing.T) {
	t.Parallel()
	all := servers.Chosen(t, servers.AllMySQL(t))
	s := testdrive.Private(t, all[len(all)-1].Flavour) // whatever flavour: it is about PostgreSQL
	admin, err := s.Open()
	require.NoError(t, err)
	defer admin.Close()
	for range rounds(10) {
		pair := testdrive.StartPostgresPair(t, true)
		env := testdrive.Environment(t, s)
		env["ANSWER_TIMEOUT"] = "2s" // some servers do not respond
		env["DATABASE_URL"] = pair.URL
		p := newWorld(t, testdrive.Start(t, env), testdrive.Start(t, env))
		end := p.load(t, 6)
		p.awaitDone(t, 60)
		killed := time.Now()
		pair.Primary.Kill(t)
		testdrive.Eventually(t, "requests are refused", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.refused) > 0
		})
		pair.Promote(t)
		promoted, interval := time.Now(), limits.Watch()
		p.awaitDone(t, 60)
		end()
		refused := p.outage(promoted)
		t.Logf("promoted after %.1f s; the last request was refused %.1f s later; %d requests; the slowest took %.1f s",
			promoted.Sub(killed).Seconds(), refused.Seconds(), p.done.Load(), p.worst.Seconds())
		interval.Prompt(t, "requests succeed after the promotion", refused, promotionTime)
		p.expectOnly503(t)
		// Outcomes that were committed asynchronously may be lost; those tasks run again when their leases expire.
		testdrive.Eventually(t, "no task is in progress", func() bool {
			return !pair.Standby.Has(t, "SELECT FROM task WHERE state = 'in progress'")
		})
		p.Audit = testdrive.AuditOf(t, env, admin)
		p.Audit.Records = audit.OpenRecords(t, pair.Standby.URL, env["ENCRYPTION_KEYSET"])
		p.Check(t, "after the promotion")
		p.clear(t)
	}
}

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
		b := p.bound(t)
		require.NoError(t, audit.Write(t.Context(), b.Credentials, "note of "+b.InstanceID))
		return b
	}
	kept, doomed := provision(), provision().InstanceID
	testdrive.Eventually(t, "the standby has both", func() bool {
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
		testdrive.Eventually(t, "the broker is held", func() bool {
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
