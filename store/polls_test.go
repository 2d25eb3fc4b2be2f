package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Concurrent polls share a query. Each gets its own task, as it was at the time of the poll or later.
func TestTaskStatus(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	const tasks = 50
	var all sync.WaitGroup
	for n := range tasks {
		instance, binding, kind := fmt.Sprintf("i%d", n), "", store.Provision
		if n%2 == 1 {
			binding, kind = "b", store.Bind
		}
		all.Go(func() {
			id := newTask(t, s, store.NewTask{InstanceID: instance, BindingID: binding, Kind: kind,
				PlanID: instance + "-plan"}).ID
			want := store.TaskStatus{Kind: kind, State: store.InProgress, PlanID: instance + "-plan"}
			for _, cancelled := range []bool{false, true} {
				if cancelled {
					want.State, want.Description = store.Failed, "cancelled "+instance
					if err := s.InTx(t.Context(), func(tx *store.Tx) error {
						tx.CancelTask(id, want.Description)
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
				if got, err := s.TaskStatus(t.Context(), id, instance, binding); err != nil || got != want {
					t.Errorf("task %d is %+v, %v; want %+v", id, got, err, want)
				}
			}
			for _, other := range []struct {
				id                int64
				instance, binding string
			}{{id + 1000, instance, binding}, {id, "other", binding}, {id, instance, "other"}} {
				if got, err := s.TaskStatus(t.Context(), other.id, other.instance, other.binding); err != store.ErrNotFound {
					t.Errorf("task %d of %s %q is %+v, %v", other.id, other.instance, other.binding, got, err)
				}
			}
		})
	}
	all.Wait()
}

// While PostgreSQL does not answer, every poll fails within seconds.
func TestTaskStatusDuringAnOutage(t *testing.T) {
	t.Parallel()
	p := testdrive.StartPostgres(t)
	if _, err := store.Migrate(t.Context(), p.URL); err != nil {
		t.Fatal(err)
	}
	s := servers.OpenStore(t, p.URL)
	id := newTask(t, s, store.NewTask{InstanceID: "i", Kind: store.Provision, PlanID: "p"}).ID
	p.Freeze(t)
	defer p.Thaw(t)
	for range 2 { // who asks first, and who asks when the first have their answers
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				since := limits.Watch()
				if _, err := s.TaskStatus(t.Context(), id, "i", ""); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("the error is %v", err)
				}
				since.Done(t, "an answer", answerTime)
			})
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := s.TaskStatus(gone, id, "i", ""); !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone got %v", err)
		}
		all.Wait()
	}
	p.Thaw(t)
	testdrive.Eventually(t, limits.Stuck, "statuses can be read again", func() bool {
		got, err := s.TaskStatus(t.Context(), id, "i", "")
		return err == nil && got.State == store.InProgress
	})
}
