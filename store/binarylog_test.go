package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// TestBinaryLogs orders backups by their positions, because a server's clock may be set back, and ends an archive.
func TestBinaryLogs(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	now := time.Now().Truncate(time.Second)
	l, err := s.Logs.Begin(ctx, store.BinaryLog{ID: "l_1", InstanceID: "i", Server: "d_1", BeginFile: "binlog.999998", BeginAt: 4,
		BeganAt: now.Add(-time.Hour)})
	require.NoError(t, err)
	require.NoError(t, s.Logs.NoteArchived(ctx, l.ID, now))
	for _, p := range []store.BackupPosition{
		{BackupID: "first", File: "binlog.999999", Position: 1000, TakenAt: now.Add(-time.Minute)},
		{BackupID: "second", File: "binlog.1000000", Position: 200, TakenAt: now.Add(-3 * time.Minute)},
		{BackupID: "third", File: "binlog.1000000", Position: 1000, TakenAt: now.Add(-2 * time.Minute)},
	} {
		exec(t, url, `INSERT INTO backup (id, instance_id, service_id, plan_id, reason, state, taken_at, keep_until)
			VALUES ('`+p.BackupID+`', 'i', 's', 'p', 'request', 'complete', now(), now())`)
		p.LogID = l.ID
		require.NoError(t, s.Logs.ImportMark(ctx, p))
	}
	windows, err := s.Logs.Windows(ctx, "i")
	require.True(t, err == nil && len(windows) == 3, "windows %+v, %v", windows, err)
	for n, id := range []string{"third", "second", "first"} {
		assert.Equal(t, id, windows[n].BackupID)
	}
	needed, err := s.Logs.Needed(ctx)
	require.True(t, err == nil && len(needed) == 1, "needed %+v, %v", needed, err)
	assert.True(t, needed[0].FirstFile == "binlog.999999" && needed[0].FirstPosition == 1000, "needed %+v", needed)
	for range 2 {
		require.NoError(t, s.Logs.EndOf(ctx, "i", "a reason"))
	}
	l, err = s.Logs.Get(ctx, l.ID)
	assert.True(t, err == nil && l.EndedAt != nil && l.EndReason == "a reason", "%+v, %v", l, err)
}
