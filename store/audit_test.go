package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// audited lists the entries that match, the newest first.
func audited(t *testing.T, s *store.Store, q store.AuditQuery) (all []string) {
	t.Helper()
	if err := s.Audit.Each(t.Context(), q, func(e store.AuditEntry) error {
		who := e.Actor.Platform + ":" + e.Actor.UserID
		all = append(all, strings.Join([]string{who, e.Action, e.InstanceID, e.BindingID, e.PlanID, e.Object, e.Result}, " "))
		if ended := e.Result != "in progress" && e.Result != "begun"; ended != (e.EndedAt != nil) {
			t.Errorf("%s ended at %v", all[len(all)-1], e.EndedAt)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
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
	if _, _, err := s.Instances.RecordProvision(ctx, store.Asked{At: time.Now()}, i, by(provisionOf("i")), store.Room{OnServer: 10}); err != nil {
		t.Fatal(err)
	}
	j := store.Instance{ID: "j", PlanID: "plan", Location: store.SharedLocation("a"), Database: "other"}
	if _, _, err := s.Instances.RecordProvision(ctx, store.Asked{At: time.Now()}, j, by(provisionOf("j")),
		store.Room{OnServer: 1}); !errors.Is(err, store.ErrServerFull) {
		t.Fatalf("a full server: %v", err)
	}
	if got, want := audited(t, s, store.AuditQuery{}), []string{"cloudfoundry:jane provision i  plan  in progress"}; !slices.Equal(
		got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	claimed, err := s.Queue.Claim(ctx, "worker", time.Minute, store.Passed{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Queue.Finish(ctx, held(claimed), store.Succeeded, "", true, func(tx *store.Tx) {
		tx.SetInstanceState("i", store.Ready)
	}); err != nil {
		t.Fatal(err)
	}
	var cancelled *store.Task
	inTx(t, s, func(tx *store.Tx) error {
		cancelled = tx.InsertTask(by(store.NewTask{InstanceID: "i", BindingID: "b", Kind: store.Bind, PlanID: "plan"}))
		return nil
	})
	inTx(t, s, func(tx *store.Tx) error {
		tx.CancelTask(cancelled.ID, "")
		tx.InsertTask(store.NewTask{InstanceID: "i", Kind: store.Update, PlanID: "plan",
			Request: []byte(`{"plan_id":"other","secret":"hunter2"}`)})
		return nil
	})
	if _, err := s.Servers.Drain(ctx, "a"); err != nil {
		t.Fatal(err)
	}
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
		if got := audited(t, s, c.q); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}

	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var text string
	if err := conn.QueryRow(ctx, "SELECT string_agg(a::text, ' ') FROM audit a").Scan(&text); err != nil ||
		strings.Contains(text, "hunter2") {
		t.Errorf("%v: the audit has a part of a request: %s", err, text)
	}
	if _, err := conn.Exec(ctx, "UPDATE audit SET at = now() - interval '3 d' WHERE action <> 'drain'"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Audit.Delete(ctx, 48*time.Hour); n != 3 || err != nil {
		t.Errorf("%d old entries were deleted: %v", n, err)
	}
	if got := fmt.Sprint(audited(t, s, store.AuditQuery{})); got != "[broker: drain    a begun]" {
		t.Errorf("after the removal: %s", got)
	}
}
