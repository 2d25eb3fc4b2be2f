package store_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
)

// A backup that settings of a server refuse is verified again after a day, or when an operator asks for it.
func TestRefusedVerification(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	exec(t, url, `INSERT INTO backup (id, instance_id, service_id, plan_id, reason, state, taken_at, keep_until)
		VALUES ('b', 'i', 's', 'p', 'schedule', 'complete', now(), now())`)
	expect := func(when string, want int, refused string) {
		t.Helper()
		due, err := s.Backups.Unverified(ctx)
		assert.True(t, err == nil && len(due) == want, "%s: %d to verify, %v, want %d", when, len(due), err, want)
		b, err := s.Backups.Get(ctx, "b")
		assert.True(t, err == nil && b.VerifyRefused == refused,
			"%s: refused %q, %v, want %q", when, b.VerifyRefused, err, refused)
	}
	do := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	expect("new", 1, "")
	do(s.Backups.NoteRefusal(ctx, "b", "too long"))
	expect("refused", 0, "too long")
	exec(t, url, "UPDATE backup SET verify_refused_at = now() - interval '23 h 59 min'")
	expect("refused earlier that day", 0, "too long")
	exec(t, url, "UPDATE backup SET verify_refused_at = now() - interval '1 day'")
	expect("refused a day ago", 1, "too long")
	do(s.Backups.NoteRefusal(ctx, "b", "still too long"))
	expect("refused again", 0, "still too long")
	do(s.Backups.ForgetVerification(ctx, "b"))
	expect("an operator asks", 1, "")
	do(s.Backups.NoteRefusal(ctx, "b", "too long"))
	do(s.Backups.NoteVerification(ctx, "b", ""))
	expect("verified", 0, "")
}
