package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// outcomes are all changes that may come with the end of a task.
var outcomes = map[string]func(tx *store.Tx){
	"instance ready":        func(tx *store.Tx) { tx.SetInstanceState("i", store.Ready) },
	"instance's plan":       func(tx *store.Tx) { tx.SetInstancePlan("i", "another", "2") },
	"instance deleted":      func(tx *store.Tx) { tx.DeleteInstance("i") },
	"over its quota":        func(tx *store.Tx) { tx.SetOver("i", true) },
	"accounts with EVENT":   func(tx *store.Tx) { tx.SetEvents("i", true) },
	"privileges reconciled": func(tx *store.Tx) { tx.SetReconciled("u", true); tx.SetReconciled("old", true) },
	"binding ready":         func(tx *store.Tx) { tx.SetBindingState("i", "b", store.Ready) },
	"binding deleted":       func(tx *store.Tx) { tx.DeleteBinding("i", "b") },
	"binding expired":       func(tx *store.Tx) { tx.RecordExpired("i", "b") },
	"account retired":       func(tx *store.Tx) { tx.RecordRetiredAccount("i", "u") },
}

// A worker that has lost its task to another one records nothing.
func TestLostLeaseRecordsNoOutcome(t *testing.T) {
	t.Parallel()
	for name, outcome := range outcomes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, ctx := servers.Postgres(t), t.Context()
			s := servers.OpenStore(t, url)
			i := store.Instance{ID: "i", PlanID: "plan", Location: store.SharedLocation("a"), Database: "db"}
			_, _, err := s.Instances.RecordProvision(ctx, store.Asked{At: time.Now()}, i, provisionOf("i"), store.Room{OnServer: 10})
			require.NoError(t, err)
			inTx(t, s, func(tx *store.Tx) error {
				tx.RecordRetiredAccount("i", "old")
				return tx.InsertBinding(store.Binding{InstanceID: "i", ID: "b", Role: "admin", Account: "u"})
			})
			dead, err := s.Queue.Claim(ctx, "dead", -time.Second, store.Passed{}) // run out as soon as it is taken
			require.NoError(t, err)
			alive, err := s.Queue.Claim(ctx, "alive", time.Minute, store.Passed{})
			require.NoError(t, err)
			before := rows(t, url)
			assert.ErrorIs(t, s.Queue.Finish(ctx, held(dead), store.Succeeded, "", true, outcome), store.ErrLeaseLost,
				"the dead worker")
			assert.Equal(t, before, rows(t, url), "the dead worker changed something")
			assert.NoError(t, s.Queue.Finish(ctx, held(alive), store.Succeeded, "", true, outcome), "the living worker")
			got, err := s.Tasks.Get(ctx, alive.ID)
			assert.True(t, err == nil && got.State == store.Succeeded, "the task's state is %q, %v", got.State, err)
			ended := rows(t, url)
			assert.NotEqual(t, before, ended, "the living worker changed nothing")
			assert.ErrorIs(t, s.Queue.Finish(ctx, held(alive), store.Failed, "", true, nothing), store.ErrLeaseLost, "once more")
			assert.Equal(t, ended, rows(t, url), "once more changed something")
		})
	}
}

// rows returns the rows that outcomes change.
func rows(t *testing.T, url string) []string {
	t.Helper()
	return texts(t, url, `SELECT row FROM (
		SELECT i::text FROM instance i UNION ALL SELECT b::text FROM binding b UNION ALL SELECT s::text FROM server s
		UNION ALL SELECT a::text FROM retired_account a UNION ALL SELECT e::text FROM expired_binding e) AS every (row)
		ORDER BY row`)
}

// The end of a task and its outcome are recorded together or not at all.
func TestFinishRollsBackWithItsOutcome(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
	newTask(t, s, provisionOf("i"))
	task, err := s.Queue.Claim(ctx, "me", time.Minute, store.Passed{})
	require.NoError(t, err)
	for name, outcome := range map[string]func(*store.Tx){
		"refused by PostgreSQL":          func(tx *store.Tx) { tx.SetInstanceState("i", "no such state") },
		"recorded with or without lease": func(tx *store.Tx) { tx.CancelTask(task.ID, "") },
	} {
		err = s.Queue.Finish(ctx, held(task), store.Succeeded, "", true, outcome)
		assert.False(t, err == nil || errors.Is(err, store.ErrLeaseLost), "%s: %v", name, err)
		got, err := s.Tasks.Get(ctx, task.ID)
		assert.True(t, err == nil && got.State == store.InProgress, "%s: state %q, %v", name, got.State, err)
	}
}
