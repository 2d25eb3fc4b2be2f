package ha

import (
	"testing"
	"time"

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
	s := testdrive.Private(t, servers.Any(t).Flavour) // it is about PostgreSQL
	admin := s.Admin(t)
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
			return !p.refused.IsZero()
		})
		pair.Promote(t)
		promoted, interval := time.Now(), limits.Watch()
		p.awaitDone(t, 60)
		end()
		refused := max(0, p.refused.Sub(promoted)) // no request is in progress
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
