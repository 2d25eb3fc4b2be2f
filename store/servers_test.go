package store_test

import (
	"errors"
	"testing"
	"time"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

func TestDrainedServerTakesNoInstance(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	ctx := t.Context()
	take := func(id string) error {
		i := store.Instance{ID: id, ServiceID: "s", PlanID: "p", Location: store.SharedLocation("a"), Database: "db_" + id}
		_, _, err := s.RecordProvision(ctx, time.Now(), nil, i, store.NewTask{InstanceID: id, Kind: store.Provision, PlanID: "p"}, 10)
		return err
	}
	expect := func(instances int, drained bool) {
		t.Helper()
		states, err := s.ServerStates(ctx, []string{"a"})
		if err != nil || states["a"].Instances != instances || states["a"].Drained() != drained {
			t.Errorf("%+v, %v", states["a"], err)
		}
	}
	if state, err := s.Drain(ctx, "a"); err != nil || !state.Drained() || state.Instances != 0 {
		t.Fatalf("a server that never held anything: %+v, %v", state, err)
	}
	if err := s.Undrain(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := take("1"); err != nil {
		t.Fatal(err)
	}
	first, err := s.Drain(ctx, "a")
	if err != nil || first.Instances != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := s.Drain(ctx, "a"); err != nil || !again.DrainedSince.Equal(*first.DrainedSince) {
		t.Errorf("drained a second time: %+v, %v", again, err)
	}
	if err := take("2"); !errors.Is(err, store.ErrServerFull) {
		t.Errorf("on a drained server: %v", err)
	}
	expectUnrecorded(t, s, "2")
	expect(1, true)
	if err := s.InTx(ctx, func(tx *store.Tx) error { tx.DeleteInstance("1"); return nil }); err != nil {
		t.Fatal(err)
	}
	expect(0, true)
	if err := s.Undrain(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := take("2"); err != nil {
		t.Errorf("after the drain: %v", err)
	}
	expect(1, false)
	if all, err := s.RecordedServers(ctx); err != nil || len(all) != 1 || all[0].Name != "a" {
		t.Errorf("%+v, %v", all, err)
	}
}
