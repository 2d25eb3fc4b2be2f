package store_test

import (
	"errors"
	"testing"
	"time"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// During a hold, only binds are recorded; what else would have come with another task is not either.
func TestHoldLetsOnlyBindsThrough(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
	shared, dedicated := store.SharedLocation("a"), store.DedicatedLocation("process", "d_1")
	record := func(id string, at store.Location, database string) error {
		i := store.Instance{ID: id, Location: at, Database: database}
		_, _, err := s.RecordProvision(ctx, time.Now(), nil, i, provisionOf(id), 10)
		return err
	}
	if err := record("there", shared, "db_there"); err != nil {
		t.Fatal(err)
	}
	inTx(t, s, func(tx *store.Tx) error {
		return tx.InsertBinding(store.Binding{InstanceID: "there", ID: "b", Account: "u"})
	})
	if err := s.SetHold(ctx, "for a test", 0); err != nil {
		t.Fatal(err)
	}
	for id, at := range map[string]store.Location{"shared": shared, "dedicated": dedicated} {
		if err := record(id, at, "db_"+id); !errors.Is(err, store.ErrHeld) {
			t.Errorf("%s: %v", id, err)
		}
		expectUnrecorded(t, s, id)
	}
	if err := record("there", shared, "db_another"); !errors.Is(err, store.ErrExists) {
		t.Errorf("what is there: %v", err)
	}
	if loads, err := s.ServerStates(ctx, []string{"a"}); err != nil || loads["a"].Instances != 1 {
		t.Errorf("loads %v, %v", loads, err)
	}
	begin := func(bindingID, kind string) error {
		return s.InTx(ctx, func(tx *store.Tx) error {
			_, err := tx.Begin(ctx, "there", bindingID)
			tx.SetBindingState("there", "b", store.Ending)
			tx.InsertTask(store.NewTask{InstanceID: "there", BindingID: bindingID, Kind: kind, PlanID: "p"})
			return err
		})
	}
	if err := begin("b", store.Unbind); !errors.Is(err, store.ErrHeld) {
		t.Errorf("unbind: %v", err)
	}
	if b, err := s.Binding(ctx, "there", "b"); err != nil || b.State != store.Creating {
		t.Errorf("state %q, %v", b.State, err)
	}
	if err := begin("new", store.Bind); err != nil {
		t.Errorf("bind: %v", err)
	}
	if task, err := s.Claim(ctx, "me", time.Minute); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("claimed %+v, %v", task, err)
	}
	if err := s.Resume(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := begin("b", store.Unbind); err != nil {
		t.Errorf("unbind after the hold: %v", err)
	}
}

// What servers were told of stays known, or PostgreSQL would be held that was never restored; nor does the mark go back,
// which would hide that it was.
func TestForgottenTasksHoldNothing(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		created string        // when the tasks were recorded; all ended at 50 days ago
		age     time.Duration // of those to forget: 0 is a clock that is far ahead
		next    bool          // a task follows before servers are told again
	}{
		"idle for long":                       {"now() - '51 days'::interval", 30 * day, false},
		"recorded while the clock was ahead":  {"now() + '300 days'::interval", 30 * day, true},
		"forgotten while the clock was ahead": {"now() - '1 hour'::interval", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, ctx := migrated(t), t.Context()
			s := servers.OpenStore(t, url)
			newTask(t, s, provisionOf("before"))
			newTask(t, s, provisionOf("told"))
			exec(t, url, "UPDATE task SET state = 'succeeded', finished_at = now() - '50 days'::interval, created_at = "+
				c.created)
			told, err := s.Mark(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if c.next {
				newTask(t, s, provisionOf("next"))
			}
			if _, err := s.DeleteFinishedTasks(ctx, c.age); err != nil {
				t.Fatal(err)
			}
			if knows, err := s.KnowsTask(ctx, told.TaskID, told.TaskAt, 28*day); err != nil || !knows {
				t.Errorf("a task that servers were told of is known: %v, %v", knows, err)
			}
			if m, err := s.Mark(ctx); err != nil || m.TaskID < told.TaskID {
				t.Errorf("the mark went from task_%d to task_%d, %v", told.TaskID, m.TaskID, err)
			}
		})
	}
}
