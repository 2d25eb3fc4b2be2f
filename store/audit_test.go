package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// audited lists the entries that match, the newest first.
func audited(t *testing.T, s *store.Store, q store.AuditQuery) (all []string) {
	t.Helper()
	require.NoError(t, s.Audit.Each(t.Context(), q, func(e store.AuditEntry) error {
		who := e.Actor.Platform + ":" + e.Actor.UserID
		all = append(all, strings.Join([]string{who, e.Action, e.InstanceID, e.BindingID, e.PlanID, e.Object, e.Result}, " "))
		ended := e.Result != "in progress" && e.Result != "begun"
		assert.Equal(t, ended, e.EndedAt != nil, "%s ended at %v", all[len(all)-1], e.EndedAt)
		return nil
	}))
	return all
}

// The audit agrees with the records, for each way in which a task begins and ends.
func TestAuditFollowsTasks(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	s.ActAs(store.Actor{Platform: store.ByBroker})
	jane := store.Actor{Platform: "cloudfoundry", UserID: "jane", Email: "jane@example.com", RequestID: "r"}
	i := store.Instance{ID: "i", PlanID: "plan", Location: store.SharedLocation("a"), Database: "db"}
	by := func(n store.NewTask) store.NewTask { n.Actor = jane; return n }
	_, _, err := s.Instances.RecordProvision(ctx, store.Asked{At: time.Now()}, i, by(provisionOf("i")), store.Room{OnServer: 10})
	require.NoError(t, err)
	j := store.Instance{ID: "j", PlanID: "plan", Location: store.SharedLocation("a"), Database: "other"}
	_, _, err = s.Instances.RecordProvision(ctx, store.Asked{At: time.Now()}, j, by(provisionOf("j")),
		store.Room{OnServer: 1})
	require.ErrorIs(t, err, store.ErrServerFull, "a full server")
	assert.Equal(t, []string{"cloudfoundry:jane provision i  plan  in progress"}, audited(t, s, store.AuditQuery{}))
	claimed, err := s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{})
	require.NoError(t, err)
	require.NoError(t, s.Queue.Finish(ctx, held(claimed), store.Succeeded, "", true, func(tx *store.Tx) {
		tx.SetInstanceState("i", store.Ready)
	}))
	var cancelled *store.Task
	write(t, s, func(tx *store.Tx) {
		cancelled = tx.InsertTask(by(store.NewTask{InstanceID: "i", BindingID: "b", Kind: store.Bind, PlanID: "plan"}))
	})
	write(t, s, func(tx *store.Tx) {
		tx.CancelTask(cancelled.ID, "")
		tx.InsertTask(store.NewTask{InstanceID: "i", Kind: store.Update, PlanID: "plan",
			Request: []byte(`{"plan_id":"other","secret":"hunter2"}`)})
	})
	_, err = s.Servers.Drain(ctx, "a")
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
	n, err := s.Audit.Delete(ctx, 48*time.Hour)
	assert.True(t, n == 3 && err == nil, "%d old entries were deleted: %v", n, err)
	assert.Equal(t, []string{"broker: drain    a begun"}, audited(t, s, store.AuditQuery{}), "after the removal")
}
