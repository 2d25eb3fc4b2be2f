package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// setBack makes a database look as if its clock had been set back by an hour: everything in it lies an hour ahead.
func setBack(t *testing.T, url string) {
	t.Helper()
	exec(t, url, `UPDATE task SET run_at = run_at + '1 hour', created_at = created_at + '1 hour',
		lease_until = lease_until + '1 hour'`)
}

func TestClockSetBackKeepsNoTaskWaiting(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	newTask(t, s, provisionOf("leased"))
	_, err := s.Queue.Claim(ctx, "dead", time.Minute, store.Passed{})
	require.NoError(t, err)
	newTask(t, s, provisionOf("waiting"))
	n, err := s.Queue.MendClock(ctx, time.Minute, time.Minute)
	assert.True(t, err == nil && n == 0, "%d tasks were mended under a right clock, %v", n, err)
	setBack(t, url)
	_, err = s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{})
	assert.ErrorIs(t, err, store.ErrNotFound, "claimed before the clock was mended")
	n, err = s.Queue.MendClock(ctx, time.Minute, time.Minute)
	assert.True(t, err == nil && n == 2, "%d tasks were mended, %v", n, err)
	claimed, err := s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{})
	assert.True(t, err == nil && claimed.InstanceID == "waiting",
		"claimed %q, %v: the dead worker's lease has not run out yet", claimed.InstanceID, err)
	_, err = s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{})
	assert.ErrorIs(t, err, store.ErrNotFound, "the dead worker's lease has not run out yet")
	exec(t, url, "UPDATE task SET lease_until = lease_until - '1 minute'::interval") // a minute later
	claimed, err = s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{})
	assert.True(t, err == nil && claimed.InstanceID == "leased",
		"claimed %q, %v instead of the dead worker's task", claimed.InstanceID, err)
}

// What is kept while PostgreSQL's clock is weeks behind is kept from now on, and not from a time in the past.
func TestNothingIsKeptFromAPastTime(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, servers.PostgresAhead(t, url, "-20 days"))
	exec(t, url, `INSERT INTO instance (id, service_id, plan_id, state, server, database_name, next_server,
		next_dedicated_id, next_launcher) VALUES ('deleted', 's', 'p', 'ready', 'one', 'db_1', NULL, NULL, NULL),
		('moved', 's', 'p', 'ready', 'one', 'db_2', 'two', '', '')`)
	require.NoError(t, s.InTx(ctx, func(tx *store.Tx) error {
		for _, id := range []string{"deleted", "moved"} {
			if _, err := tx.LockInstance(ctx, id); err != nil {
				return err
			}
		}
		tx.InsertBackup(store.Backup{ID: "b_1", InstanceID: "moved", PlanID: "p", Reason: "user"}, 7*24*time.Hour)
		tx.Retain("deleted", store.Retained{ID: "r_1"}, 7, nil)
		tx.SwapPlaces("moved")
		return nil
	}))
	conn := connect(t, url)
	var backup, retained, moved time.Time
	require.NoError(t, conn.QueryRow(ctx, `SELECT keep_until - interval '7 days', until - interval '7 days', moved_at
		FROM backup, retained, instance`).Scan(&backup, &retained, &moved))
	for what, from := range map[string]time.Time{"the backup": backup, "what is retained": retained, "the former place": moved} {
		assert.True(t, time.Since(from) <= time.Hour, "%s is kept from %v on", what, from)
	}
}
