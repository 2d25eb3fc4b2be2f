package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
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
			s, url := fresh(t)
			insertInstance(t, s, store.Instance{ID: "i", PlanID: "plan", Location: store.SharedLocation("a"), Database: "db"})
			newTask(t, s, provisionOf("i"))
			insertBinding(t, s, store.Binding{InstanceID: "i", ID: "b", Role: "admin", Account: "u"})
			write(t, s, func(tx *store.Tx) { tx.RecordRetiredAccount("i", "old") })
			dead := claim(t, s, "dead", -time.Second) // run out as soon as it is taken
			alive := claim(t, s, "alive", time.Minute)
			before := rows(t, url)
			assert.ErrorIs(t, s.Queue.Finish(t.Context(), held(dead), store.Succeeded, "", true, outcome), store.ErrLeaseLost,
				"the dead worker")
			assert.Equal(t, before, rows(t, url), "the dead worker changed something")
			assert.NoError(t, s.Queue.Finish(t.Context(), held(alive), store.Succeeded, "", true, outcome), "the living worker")
			got, err := s.Tasks.Get(t.Context(), alive.ID)
			assert.True(t, err == nil && got.State == store.Succeeded, "the task's state is %q, %v", got.State, err)
			ended := rows(t, url)
			assert.NotEqual(t, before, ended, "the living worker changed nothing")
			assert.ErrorIs(t, s.Queue.Finish(t.Context(), held(alive), store.Failed, "", true, nothing), store.ErrLeaseLost, "once more")
			assert.Equal(t, ended, rows(t, url), "once more changed something")
		})
	}
}

// rows returns the rows that outcomes change.
func rows(t *testing.T, url string) []string {
	return texts(t, url, `SELECT row FROM (
		SELECT i::text FROM instance i UNION ALL SELECT b::text FROM binding b UNION ALL SELECT s::text FROM server s
		UNION ALL SELECT a::text FROM retired_account a UNION ALL SELECT e::text FROM expired_binding e) AS every (row)
		ORDER BY row`)
}

// The end of a task and its outcome are recorded together or not at all.
func TestFinishRollsBackWithItsOutcome(t *testing.T) {
	s, ctx := parallel(t), t.Context()
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
	newTask(t, s, provisionOf("i"))
	task := claim(t, s, "me", time.Minute)
	for name, outcome := range map[string]func(*store.Tx){
		"refused by PostgreSQL":          func(tx *store.Tx) { tx.SetInstanceState("i", "no such state") },
		"recorded with or without lease": func(tx *store.Tx) { tx.CancelTask(task.ID, "") },
	} {
		err := s.Queue.Finish(ctx, held(task), store.Succeeded, "", true, outcome)
		assert.False(t, err == nil || errors.Is(err, store.ErrLeaseLost), "%s: %v", name, err)
		got, err := s.Tasks.Get(ctx, task.ID)
		assert.True(t, err == nil && got.State == store.InProgress, "%s: state %q, %v", name, got.State, err)
	}
}

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
		task, err := recordProvision(t, s, store.Instance{ID: id, Location: store.SharedLocation("one"), Database: "db_" + id},
			leased(id, "me"))
		require.NoError(t, err)
		require.NoError(t, s.Queue.Progress(ctx, held(task), "", "a sentence", false))
		_, err = s.Queue.Extend(ctx, "me", []store.Lease{held(task)}, time.Minute)
		require.NoError(t, err)
		inTx(t, s, func(tx *store.Tx) error {
			there, err := tx.Begin(ctx, id, "")
			assert.Len(t, there.Active, 1, "in progress")
			return err
		})
		require.NoError(t, s.Queue.Finish(ctx, held(task), store.Succeeded, "", true, nothing))
	}
	s.Close() // its connections then tell the figures

	scans := func(index string) (n, entries int) {
		require.NoError(t, conn.QueryRow(ctx, `SELECT idx_scan, idx_tup_read FROM pg_stat_user_indexes
			WHERE indexrelname = $1`, index).Scan(&n, &entries))
		return n, entries
	}
	const byKey = 3 * operations // Progress, Extend, Finish
	testdrive.Eventually(t, "the figures are told", func() bool {
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

// audited lists the entries that match, the newest first.
func audited(t *testing.T, s *store.Store, q store.AuditQuery) (all []string) {
	for _, e := range listed(t, s.Audit.Each, q) {
		who := e.Actor.Platform + ":" + e.Actor.UserID
		all = append(all, strings.Join([]string{who, e.Action, e.InstanceID, e.BindingID, e.PlanID, e.Object, e.Result}, " "))
		ended := e.Result != "in progress" && e.Result != "begun"
		assert.Equal(t, ended, e.EndedAt != nil, "%s ended at %v", all[len(all)-1], e.EndedAt)
	}
	return all
}

// The audit agrees with the records, for each way in which a task begins and ends.
func TestAuditFollowsTasks(t *testing.T) {
	s, url := fresh(t)
	s.ActAs(store.Actor{Platform: store.ByBroker})
	jane := store.Actor{Platform: "cloudfoundry", UserID: "jane", Email: "jane@example.com", RequestID: "r"}
	i := store.Instance{ID: "i", PlanID: "plan", Location: store.SharedLocation("a"), Database: "db"}
	by := func(n store.NewTask) store.NewTask { n.Actor = jane; return n }
	_, err := recordProvision(t, s, i, by(provisionOf("i")))
	require.NoError(t, err)
	j := store.Instance{ID: "j", PlanID: "plan", Location: store.SharedLocation("a"), Database: "other"}
	_, _, err = s.Instances.RecordProvision(t.Context(), store.Asked{At: time.Now()}, j, by(provisionOf("j")),
		store.Room{OnServer: 1})
	require.ErrorIs(t, err, store.ErrServerFull, "a full server")
	assert.Equal(t, []string{"cloudfoundry:jane provision i  plan  in progress"}, audited(t, s, store.AuditQuery{}))
	require.NoError(t, s.Queue.Finish(t.Context(), held(claim(t, s, "worker", time.Minute)), store.Succeeded, "", true,
		func(tx *store.Tx) { tx.SetInstanceState("i", store.Ready) }))
	cancelled := newTask(t, s, by(store.NewTask{InstanceID: "i", BindingID: "b", Kind: store.Bind, PlanID: "plan"}))
	write(t, s, func(tx *store.Tx) {
		tx.CancelTask(cancelled.ID, "")
		tx.InsertTask(store.NewTask{InstanceID: "i", Kind: store.Update, PlanID: "plan",
			Request: []byte(`{"plan_id":"other","secret":"hunter2"}`)})
	})
	_, err = s.Servers.Drain(t.Context(), "a")
	require.NoError(t, err)
	for _, c := range []struct {
		q    store.AuditQuery
		want []string
	}{
		{store.AuditQuery{}, []string{"broker: drain    a begun", "broker: update i  other  in progress",
			"cloudfoundry:jane bind i b plan  cancelled", "cloudfoundry:jane provision i  plan  succeeded"}},
		{store.AuditQuery{InstanceID: "i", User: "jane@example.com", Action: "bind"},
			[]string{"cloudfoundry:jane bind i b plan  cancelled"}},
		{store.AuditQuery{User: "hunter2"}, nil},
		{store.AuditQuery{Since: time.Now().Add(time.Hour)}, nil},
	} {
		assert.Equal(t, c.want, audited(t, s, c.q), "%+v", c.q)
	}

	assert.NotContains(t, strings.Join(texts(t, url, "SELECT a::text FROM audit a"), " "), "hunter2")
	exec(t, url, "UPDATE audit SET at = now() - interval '3 d' WHERE action <> 'drain'")
	n, err := s.Audit.Delete(t.Context(), 48*time.Hour)
	assert.True(t, n == 3 && err == nil, "%d old entries were deleted: %v", n, err)
	assert.Equal(t, []string{"broker: drain    a begun"}, audited(t, s, store.AuditQuery{}), "after the removal")
}
