package engine

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Retry makes brokers try a task again, and returns the task to watch. The first broker to claim it runs it.
//
// A task that waits for its next attempt becomes due now, with all its attempts before it. A task that a worker is
// running is left alone.
//
// A failed deletion gets a new task, as if the platform had sent its request again: the platform has read that the
// first task failed, and must not read another outcome of it later. A failed provision whose database or server was
// kept (task.Keep) also gets a new task, which makes a working instance of it. No other failed task is tried again: it
// was undone, the platform knows that, and would not learn what a retry creates.
//
// A scheduled task that has ended gets a new task now, before the next one is due.
//
// The error says why a task is not tried again. It is store.ErrNotFound if there is no such task.
func (k Kinds) Retry(ctx context.Context, s *store.Store, id int64) (store.Task, error) {
	t, err := s.Tasks.RetryNow(ctx, id)
	if !errors.Is(err, store.ErrNotFound) {
		return t, err
	}
	if t, err = s.Tasks.Get(ctx, id); err != nil {
		return t, err
	}
	switch {
	case t.State == store.InProgress:
		return t, nil
	case k[t.Kind].Schedule.Every > 0:
		return task.RunNow(ctx, s, t.Kind, k[t.Kind].Kind)
	case t.State == store.Succeeded:
		return t, fmt.Errorf("%s has succeeded", task.Token(id))
	case t.Kind == store.Provision && task.Kept(t):
		return k.recordAgain(ctx, s, t, provisionKept)
	case t.Kind != store.Deprovision && !Ends(&t):
		return t, fmt.Errorf("%s has failed and was undone, and the platform knows: it has to send its %s request again",
			task.Token(id), t.Kind)
	}
	return k.recordAgain(ctx, s, t, deleteAgain)
}

// recordAgain records a new task, for any worker, for one that failed. prepare returns an error unless the instance or
// binding is still in the state in which the task left it.
func (k Kinds) recordAgain(ctx context.Context, s *store.Store, failed store.Task,
	prepare func(*store.Tx, store.Beginning, store.Task) error) (store.Task, error) {
	var again *store.Task
	err := s.InTx(ctx, func(tx *store.Tx) error {
		there, err := tx.Begin(ctx, failed.InstanceID, failed.BindingID)
		if err == nil {
			err = prepare(tx, there, failed)
		}
		if err != nil {
			return err
		}
		again = tx.InsertTask(store.NewTask{InstanceID: failed.InstanceID, BindingID: failed.BindingID, Kind: failed.Kind,
			PlanID: there.Instance.PlanID, Request: failed.Request, Description: k[failed.Kind].beginning})
		return nil
	})
	switch {
	case !errors.Is(err, store.ErrNotFound):
	case failed.Kind == store.Provision:
		err = errors.New("its service instance is gone")
	default:
		err = errors.New("what the task was to delete is gone")
	}
	if err != nil {
		return failed, fmt.Errorf("%s cannot be retried: %w", task.Token(failed.ID), err)
	}
	return *again, nil
}

// provisionKept is for a provision that failed and kept the data that it found.
func provisionKept(tx *store.Tx, there store.Beginning, failed store.Task) error {
	switch {
	case len(there.Active) > 0:
		return fmt.Errorf("%s is in progress there", task.Token(there.Active[0].ID))
	case there.Instance.State != store.CreateFailed:
		return fmt.Errorf("the state of the service instance is %q", there.Instance.State)
	}
	tx.SetInstanceState(failed.InstanceID, store.Creating)
	return nil
}

// deleteAgain is for a deletion that failed.
func deleteAgain(tx *store.Tx, there store.Beginning, failed store.Task) error {
	if err := failedToDelete(there, failed); err != nil {
		return err
	}
	if failed.Kind == store.Deprovision { // unbinds in progress, which the deletion of the instance replaces
		for _, a := range there.Active {
			tx.CancelTask(a.ID, CancelledByDeprovision)
		}
	}
	return nil
}

// failedToDelete returns an error unless the instance or binding is still in the state in which the task left it.
func failedToDelete(there store.Beginning, failed store.Task) error {
	for _, active := range there.Active {
		if active.BindingID == "" || active.BindingID == failed.BindingID {
			return fmt.Errorf("%s is in progress there", task.Token(active.ID))
		}
	}
	switch {
	case failed.Kind == store.Deprovision && there.Instance.State != store.DeleteFailed:
		return fmt.Errorf("the state of the service instance is %q", there.Instance.State)
	case Ends(&failed) && there.Binding == nil:
		return store.ErrNotFound
	case Ends(&failed) && there.Binding.State != store.Ending:
		return fmt.Errorf("the state of the service binding is %q", there.Binding.State)
	}
	return nil
}

// CancelledByDeprovision is what users read about a task that was in progress when its instance was deleted.
const CancelledByDeprovision = "Cancelled, because the service instance is being deleted."

// Ends reports whether a task, which may be nil, ends a binding.
func Ends(t *store.Task) bool { return t != nil && (t.Kind == store.Unbind || t.Kind == store.Expire) }
