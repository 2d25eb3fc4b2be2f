package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
)

// What restores take and what expires depends on verified backups: unverified ones behind the last verified one neither
// replace it nor outlive their days.
func TestVerifiedBackupsCount(t *testing.T) {
	s, url := fresh(t)
	ready(t, s, "i", "db_i")
	expect := func(when, found string, expired ...string) {
		b, err := s.Backups.Find(t.Context(), "i")
		assert.True(t, err == nil && b.ID == found, "%s, a restore takes %q, %v, want %q", when, b.ID, err, found)
		all, err := s.Backups.Expired(t.Context())
		var ids []string
		for _, b := range all {
			ids = append(ids, b.ID)
		}
		require.NoError(t, err, when)
		assert.ElementsMatch(t, expired, ids, when)
	}
	for n, id := range []string{"b_1", "b_2", "b_3", "b_4"} {
		at := fmt.Sprintf("now() + %d * interval '1 s'", n)
		backedUp(t, url, id, "i", "schedule", at, at)
	}
	note := func(id, problem string) { require.NoError(t, s.Backups.RecordVerification(t.Context(), id, problem)) }
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

// By the clock of a broker's host, a backup ended before the one that it follows.
func TestLatestBackupByAnotherClock(t *testing.T) {
	s, url := fresh(t)
	ready(t, s, "i", "db_i")
	backedUp(t, url, "b_1", "i", "schedule", "now() - interval '1 h'", "now()")
	backedUp(t, url, "b_2", "i", "schedule", "now()", "now() - interval '1 h'")
	exec(t, url, "UPDATE backup SET verified_at = now()")
	all, err := s.Backups.Expired(t.Context())
	assert.True(t, err == nil && len(all) == 0, "to be deleted are %+v, %v", all, err)
	expect := func(when, id string) {
		exec(t, url, "UPDATE backup SET taken_at = finished_at")
		b, err := s.Backups.Find(t.Context(), "i")
		assert.True(t, err == nil && b.ID == id, "%s, a restore takes %q, %v", when, b.ID, err)
	}
	expect("of two clocks of hosts", "b_2")
	exec(t, url, "UPDATE backup SET created_at = now() + interval '20 days' WHERE id = 'b_1'")
	expect("after PostgreSQL's clock was set back", "b_2")
}

// What a restore in place has put into an instance is in no backup of the schedule.
func TestBackupIsDueAfterARestoreInPlace(t *testing.T) {
	s, url := fresh(t)
	ready(t, s, "i", "db_i")
	expectDue(t, s, 3, "without a backup", "i")
	exec(t, url, "UPDATE instance SET frozen_since = now()") // a backup of a mixture would replace one of good data
	expectDue(t, s, 3, "in a mixture")
	exec(t, url, "UPDATE instance SET frozen_since = NULL")
	backedUp(t, url, "b_1", "i", "schedule", "now() - interval '2 h'", "now()")
	expectDue(t, s, 3, "after a backup")
	backedUp(t, url, "b_2", "i", "restore", "now() - interval '1 h'", "now()")
	expectDue(t, s, 3, "after a restore in place", "i")
	ready(t, s, "j", "db_j")
	backedUp(t, url, "b_4", "j", "schedule", "now() - interval '25 h'", "now()")
	expectDue(t, s, 3, "beside an older backup", "j", "i")
	backedUp(t, url, "b_3", "i", "schedule", "now() - interval '1 min'", "now()")
	expectDue(t, s, 3, "after the next backup", "j")
}

// backedUp records a complete backup that was begun and finished at these times, in SQL.
func backedUp(t *testing.T, url, id, instance, reason, begun, finished string) {
	exec(t, url, fmt.Sprintf(`INSERT INTO backup (id, instance_id, service_id, plan_id, reason, state, created_at, finished_at,
		taken_at, keep_until) VALUES ('%s', '%s', 's', 'p', '%s', 'complete', %s, %s, now(), now())`,
		id, instance, reason, begun, finished))
}

// expectDue expects that these instances are due for their daily backup, of which a few run at once.
func expectDue(t *testing.T, s *store.Store, atOnce int, when string, want ...string) {
	due, err := s.Backups.Due(t.Context(), []store.BackupSchedule{{PlanID: "p", Every: 24 * time.Hour}}, atOnce)
	require.NoError(t, err, when)
	assert.Equal(t, append([]string{}, want...), due, when)
}

// Backups and attempts at them from before PostgreSQL's clock was set back by days put no backup off for these days.
func TestBackupIsDueAfterTheClockWasSetBack(t *testing.T) {
	s, url := fresh(t)
	ready(t, s, "i", "db_i")
	for _, reason := range []string{"schedule", "restore"} {
		backedUp(t, url, "b_"+reason, "i", reason, "now() + interval '20 days'", "now()")
	}
	exec(t, url, `INSERT INTO task (instance_id, kind, plan_id, state, created_at, finished_at)
		VALUES ('i', 'backup', 'p', 'failed', now() + interval '20 days', now())`)
	expectDue(t, s, 3, "after the clock was set back", "i")
	exec(t, url, "UPDATE task SET created_at = now() + interval '5 s'")
	expectDue(t, s, 3, "seconds after an attempt, by a clock that differs a little")
	exec(t, url, "DELETE FROM task")
	backedUp(t, url, "b", "i", "schedule", "now()", "now()")
	expectDue(t, s, 3, "after the next backup")
	exec(t, url, "DELETE FROM backup WHERE id = 'b'")
	for _, id := range []string{"j1", "j2", "j3"} {
		ready(t, s, id, "db_"+id)
		backedUp(t, url, "b_"+id, id, "schedule", "now() - interval '2 days'", "now()")
	}
	expectDue(t, s, 1, "while more instances are due than may be backed up at once", "i")
}

// A backup that PostgreSQL recorded before its clock was set back hides no older one, and neither that nor the clock of a
// server hides that an archive stands still.
func TestAgesByWrongClocks(t *testing.T) {
	s, url := fresh(t)
	insertInstance(t, s, store.Instance{ID: "i", PlanID: "p", Location: store.DedicatedLocation("l", "d"), Database: "db_i"})
	exec(t, url, "UPDATE instance SET state = 'ready', created_at = now() - interval '9 days'")
	hours := func(ages []store.BackupAge, err error) float64 {
		require.True(t, err == nil && len(ages) == 1, "%+v, %v", ages, err)
		return ages[0].Age.Round(time.Hour).Hours()
	}
	backup := func() float64 {
		stats, err := s.Backups.Stats(t.Context(), []store.BackupSchedule{{PlanID: "p"}})
		return hours(stats.Ages, err)
	}
	archive := func() float64 {
		stats, err := s.Logs.Stats(t.Context(), []string{"p"})
		return hours(stats.Ages, err)
	}
	for n, taken := range []string{"- interval '3 hours'", "+ interval '20 days'"} {
		backedUp(t, url, fmt.Sprint("b_", n), "i", "schedule", "now()", "now()")
		exec(t, url, fmt.Sprintf("UPDATE backup SET verified_at = now(), taken_at = now() %s WHERE id = 'b_%d'", taken, n))
	}
	assert.EqualValues(t, 3, backup(), "the backup")
	assert.EqualValues(t, 9*24, archive(), "without an archive")
	ahead := time.Now().Add(480 * time.Hour)
	_, err := s.Logs.Begin(t.Context(), store.BinaryLog{ID: "l", InstanceID: "i", Server: "d", BeginFile: "binlog.1", BeganAt: ahead})
	require.NoError(t, err)
	exec(t, url, "UPDATE binary_log SET archived_at = archived_at - interval '5 hours'")
	assert.EqualValues(t, 5, archive(), "the archive of a server whose clock is ahead")
	exec(t, url, "UPDATE binary_log SET archived_at = now() + interval '20 days', until = now() - interval '7 hours'")
	assert.EqualValues(t, 7, archive(), "an archive that stands still since PostgreSQL's clock was set back")
	require.NoError(t, s.Logs.RecordArchived(t.Context(), "l", ahead))
	assert.Zero(t, archive(), "the archive goes on")
	exec(t, url, "UPDATE binary_log SET archived_at = archived_at - interval '5 hours'")
	assert.EqualValues(t, 5, archive(), "the archive stood still again")
	exec(t, url, "UPDATE binary_log SET archived_at = NULL, until = now() - interval '8 hours'")
	assert.EqualValues(t, 8, archive(), "an archive of the release before")
}

// A backup that settings of a server refuse is verified again after a day, or when an operator asks for it.
func TestRefusedVerification(t *testing.T) {
	s, url := fresh(t)
	backedUp(t, url, "b", "i", "schedule", "now()", "now()")
	expect := func(when string, want int, refused string) {
		due, err := s.Backups.Unverified(t.Context())
		assert.True(t, err == nil && len(due) == want, "%s: %d to verify, %v, want %d", when, len(due), err, want)
		b, err := s.Backups.Get(t.Context(), "b")
		assert.True(t, err == nil && b.VerifyRefused == refused,
			"%s: refused %q, %v, want %q", when, b.VerifyRefused, err, refused)
	}
	do := func(err error) { require.NoError(t, err) }
	expect("new", 1, "")
	do(s.Backups.RecordRefusal(t.Context(), "b", "too long"))
	expect("refused", 0, "too long")
	exec(t, url, "UPDATE backup SET verify_refused_at = now() - interval '23 h 59 min'")
	expect("refused earlier that day", 0, "too long")
	exec(t, url, "UPDATE backup SET verify_refused_at = now() - interval '1 day'")
	expect("refused a day ago", 1, "too long")
	exec(t, url, "UPDATE backup SET verify_refused_at = now() + interval '20 days'")
	expect("refused before PostgreSQL's clock was set back", 1, "too long")
	do(s.Backups.RecordRefusal(t.Context(), "b", "still too long"))
	expect("refused again", 0, "still too long")
	do(s.Backups.ForgetVerification(t.Context(), "b"))
	expect("an operator asks", 1, "")
	do(s.Backups.RecordRefusal(t.Context(), "b", "too long"))
	do(s.Backups.RecordVerification(t.Context(), "b", ""))
	expect("verified", 0, "")
}

// TestBinaryLogs orders backups by their positions, because a server's clock may be set back, and ends an archive.
func TestBinaryLogs(t *testing.T) {
	s, url := fresh(t)
	now := time.Now().Truncate(time.Second)
	l, err := s.Logs.Begin(t.Context(), store.BinaryLog{ID: "l_1", InstanceID: "i", Server: "d_1",
		BeginFile: "binlog.999998", BeginAt: 4, BeganAt: now.Add(-time.Hour)})
	require.NoError(t, err)
	require.NoError(t, s.Logs.RecordArchived(t.Context(), l.ID, now))
	backUp := func(p store.BackupPosition) {
		backedUp(t, url, p.BackupID, "i", "request", "now()", "now()")
		p.LogID = l.ID
		require.NoError(t, s.Logs.ImportMark(t.Context(), p))
	}
	backUp(store.BackupPosition{BackupID: "first", File: "binlog.999999", Position: 1000, TakenAt: now.Add(-time.Minute)})
	backUp(store.BackupPosition{BackupID: "second", File: "binlog.1000000", Position: 200, TakenAt: now.Add(-3 * time.Minute)})
	backUp(store.BackupPosition{BackupID: "third", File: "binlog.1000000", Position: 1000, TakenAt: now.Add(-2 * time.Minute)})
	expect := func(ids ...string) {
		windows, err := s.Logs.Windows(t.Context(), "i")
		require.True(t, err == nil && len(windows) == len(ids), "windows %+v, %v", windows, err)
		for n, id := range ids {
			assert.Equal(t, id, windows[n].BackupID)
		}
	}
	expect("third", "second", "first")
	needed, err := s.Logs.Needed(t.Context())
	require.True(t, err == nil && len(needed) == 1, "needed %+v, %v", needed, err)
	assert.Zero(t, needed[0].EndedAgo, "an archive that grows")
	assert.True(t, needed[0].FirstFile == "binlog.999999" && needed[0].FirstPosition == 1000, "needed %+v", needed)
	for range 2 {
		require.NoError(t, s.Logs.EndOf(t.Context(), "i", "a reason"))
	}
	exec(t, url, "UPDATE binary_log SET ended_at = ended_at - interval '2 days'")
	needed, err = s.Logs.Needed(t.Context())
	require.True(t, err == nil && len(needed) == 1, "needed %+v, %v", needed, err)
	assert.InDelta(t, 48*time.Hour, needed[0].EndedAgo, float64(time.Hour), "the archive ended so long ago")
	assert.Equal(t, []string{"a reason"}, texts(t, url, "SELECT end_reason FROM binary_log WHERE ended_at IS NOT NULL"))

	hourBehind := now.Add(-time.Hour) // by the clock of the server to which the instance was moved
	l, err = s.Logs.Begin(t.Context(), store.BinaryLog{ID: "l_2", InstanceID: "i", Server: "d_2", BeginFile: "binlog.1",
		BeginAt: 4, BeganAt: hourBehind})
	require.NoError(t, err)
	require.NoError(t, s.Logs.RecordArchived(t.Context(), l.ID, hourBehind))
	backUp(store.BackupPosition{BackupID: "fourth", File: "binlog.1", Position: 1000, TakenAt: hourBehind})
	expect("fourth", "third", "second", "first")
	exec(t, url, "UPDATE backup SET created_at = now() + interval '2 hours' WHERE id IN ('second', 'third')")
	expect("fourth", "third", "second", "first")
	exec(t, url, "UPDATE backup SET created_at = now() + interval '2 hours' WHERE id = 'first'")
	expect("fourth", "third", "second", "first")
}
