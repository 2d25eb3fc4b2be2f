package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestTasksAreFoundByTheirKeys checks that indexes are used even before PostgreSQL has statistics.
func TestTasksAreFoundByTheirKeys(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	conn := connect(t, url)
	// Else it may come to know, in the middle, that the table is so small that it is best read as a whole.
	exec(t, url, "ALTER TABLE task SET (autovacuum_enabled = off)")
	s := servers.OpenStore(t, url)
	const operations = 20
	for n := range operations {
		id := fmt.Sprint("instance ", n)
		task, _, err := s.Instances.RecordProvision(ctx, store.Asked{At: time.Now()}, store.Instance{ID: id, Location: store.SharedLocation("one"), Database: "db_" + id},
			store.NewTask{InstanceID: id, Kind: store.Provision, Owner: "me", LeaseTTL: time.Minute}, store.Room{OnServer: operations})
		require.NoError(t, err)
		require.NoError(t, s.Queue.Progress(ctx, held(task), "", "a sentence", false))
		_, err = s.Queue.Extend(ctx, "me", []store.Lease{held(task)}, time.Minute)
		require.NoError(t, err)
		require.NoError(t, s.InTx(ctx, func(tx *store.Tx) error {
			there, err := tx.Begin(ctx, id, "")
			if err == nil && len(there.Active) != 1 {
				err = fmt.Errorf("in progress: %v", there.Active)
			}
			return err
		}))
		require.NoError(t, s.Queue.Finish(ctx, held(task), store.Succeeded, "", true, nothing))
	}
	s.Close() // its connections then tell the figures

	scans := func(index string) (n, entries int) {
		require.NoError(t, conn.QueryRow(ctx, `SELECT idx_scan, idx_tup_read FROM pg_stat_user_indexes
			WHERE indexrelname = $1`, index).Scan(&n, &entries))
		return n, entries
	}
	const byKey = 3 * operations // Progress, Extend, Finish
	testdrive.Eventually(t, limits.Stuck, "the figures are told", func() bool {
		n, _ := scans("task_pkey")
		return n >= byKey
	})
	n, entries := scans("task_due")
	assert.Zero(t, n, "task_due was read, %d entries of it", entries)
	const versions = 3 // of a task, one for each write
	n, entries = scans("task_one_active")
	assert.True(t, entries <= versions*n,
		"of task_one_active %d entries were read in %d looks for those of one instance", entries, n)
}
