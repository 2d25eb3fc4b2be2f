package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// What restores take and what expires depends on verified backups: unverified ones behind the last verified one neither
// replace it nor outlive their days.
func TestVerifiedBackupsCount(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	exec(t, url, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name)
		VALUES ('i', 's', 'p', 'ready', 'one', 'db_i')`)
	expect := func(when, found string, expired ...string) {
		t.Helper()
		b, err := s.Backups.Find(ctx, "i")
		assert.True(t, err == nil && b.ID == found, "%s, a restore takes %q, %v, want %q", when, b.ID, err, found)
		all, err := s.Backups.Expired(ctx)
		var ids []string
		for _, b := range all {
			ids = append(ids, b.ID)
		}
		require.NoError(t, err, when)
		assert.ElementsMatch(t, expired, ids, when)
	}
	for n, id := range []string{"b_1", "b_2", "b_3", "b_4"} {
		exec(t, url, fmt.Sprintf(`INSERT INTO backup (id, instance_id, service_id, plan_id, reason, state, taken_at, keep_until)
			VALUES ('%s', 'i', 's', 'p', 'schedule', 'complete', now() + %d * interval '1 s', now())`, id, n))
	}
	note := func(id, problem string) {
		t.Helper()
		require.NoError(t, s.Backups.NoteVerification(ctx, id, problem))
	}
	expect("before a verification", "b_4", "b_1", "b_2", "b_3")
	note("b_2", "")
	expect("after one of an older backup", "b_2", "b_1", "b_3")
	note("b_4", "damaged")
	expect("while the latest is damaged", "b_2", "b_1")
	note("b_3", "")
	expect("after one of a later backup", "b_3", "b_1", "b_2")
	note("b_3", "damaged after all")
	expect("after that one was damaged", "b_2", "b_1")
}

// What a restore in place has put into an instance is in no backup of the schedule.
func TestBackupIsDueAfterARestoreInPlace(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	daily := []store.BackupSchedule{{PlanID: "p", Every: 24 * time.Hour}}
	expectDue := func(when string, want ...string) {
		t.Helper()
		due, err := s.Backups.Due(ctx, daily, 3)
		require.NoError(t, err, when)
		assert.Equal(t, append([]string{}, want...), due, when)
	}
	backedUp := func(id, instance, reason, ago string) {
		t.Helper()
		exec(t, url, `INSERT INTO backup (id, instance_id, service_id, plan_id, reason, state, created_at, taken_at, keep_until)
			VALUES ('`+id+`', '`+instance+`', 's', 'p', '`+reason+`', 'complete', now() - interval '`+ago+`', now(), now())`)
	}
	exec(t, url, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name)
		VALUES ('i', 's', 'p', 'ready', 'one', 'db_i')`)
	expectDue("without a backup", "i")
	exec(t, url, "UPDATE instance SET frozen_since = now()") // a backup of a mixture would replace one of good data
	expectDue("in a mixture")
	exec(t, url, "UPDATE instance SET frozen_since = NULL")
	backedUp("b_1", "i", "schedule", "2 h")
	expectDue("after a backup")
	backedUp("b_2", "i", "restore", "1 h")
	expectDue("after a restore in place", "i")
	exec(t, url, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name)
		VALUES ('j', 's', 'p', 'ready', 'one', 'db_j')`)
	backedUp("b_4", "j", "schedule", "25 h")
	expectDue("beside an older backup", "j", "i")
	backedUp("b_3", "i", "schedule", "1 min")
	expectDue("after the next backup", "j")
}
