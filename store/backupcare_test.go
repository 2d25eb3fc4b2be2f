package store_test

import (
	"slices"
	"testing"
	"time"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// What a restore in place has put into an instance is in no backup of the schedule.
func TestBackupIsDueAfterARestoreInPlace(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	daily := []store.BackupSchedule{{PlanID: "p", Every: 24 * time.Hour}}
	expectDue := func(when string, want ...string) {
		t.Helper()
		if due, err := s.Backups.Due(ctx, daily, 3); err != nil || !slices.Equal(due, want) {
			t.Errorf("%s: %q, %v, want %q", when, due, err, want)
		}
	}
	backedUp := func(id, reason, ago string) {
		t.Helper()
		exec(t, url, `INSERT INTO backup (id, instance_id, service_id, plan_id, reason, state, created_at, taken_at, keep_until)
			VALUES ('`+id+`', 'i', 's', 'p', '`+reason+`', 'complete', now() - interval '`+ago+`', now(), now())`)
	}
	exec(t, url, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name)
		VALUES ('i', 's', 'p', 'ready', 'one', 'db_i')`)
	expectDue("without a backup", "i")
	backedUp("b_1", "schedule", "2 h")
	expectDue("after a backup")
	backedUp("b_2", "restore", "1 h")
	expectDue("after a restore in place", "i")
	backedUp("b_3", "schedule", "1 min")
	expectDue("after the next backup")
}
