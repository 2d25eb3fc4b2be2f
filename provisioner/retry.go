package provisioner

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// RetryTask has a task tried again, by whichever broker comes to it first, and returns the task to look at.
//
// One in progress that waits for its next attempt has it now, and all attempts before it. One that a worker is at is
// left alone. A deletion that failed is recorded anew, as the platform does that asks once more: the platform was told
// of the failure and must not read anything else of that task, so that this is another one; asked later, the broker
// answers that the deletion goes on or that there is nothing to delete. So is a provision that failed and whose
// database or server was kept (task.Keep): what is there becomes a working instance again. Nothing else that failed is
// tried again: it was undone, and the platform, which was told so, would not know of what is made now. The error says
// why a task is not tried again, or is store.ErrNotFound.
func RetryTask(ctx context.Context, s *store.Store, id int64) (store.Task, error) {
	t, err := s.RetryNow(ctx, id)
	if !errors.Is(err, store.ErrNotFound) {
		return t, err
	}
	if t, err = s.Task(ctx, id); err != nil {
		return t, err
	}
	switch {
	case t.State == store.InProgress:
		return t, nil
	case t.State == store.Succeeded:
		return t, fmt.Errorf("%s has succeeded", task.Token(id))
	case t.Kind == store.Provision && task.Kept(t):
		return provisionKept(ctx, s, t)
	case t.Kind != store.Deprovision && t.Kind != store.Unbind:
		return t, fmt.Errorf("%s has failed and was undone, and the platform was told so: it has to ask again for this %s",
			task.Token(id), t.Kind)
	}
	return deleteAgain(ctx, s, t)
}

// provisionKept records the task of a provision that failed and left what was there before, for any worker.
func provisionKept(ctx context.Context, s *store.Store, failed store.Task) (store.Task, error) {
	var anew *store.Task
	err := s.InTx(ctx, func(tx *store.Tx) error {
		there, err := tx.Begin(ctx, failed.InstanceID, "")
		switch {
		case errors.Is(err, store.ErrNotFound):
			return errors.New("its service instance is gone")
		case err != nil:
			return err
		case len(there.Active) > 0:
			return fmt.Errorf("%s is in progress there", task.Token(there.Active[0].ID))
		case there.Instance.State != store.CreateFailed:
			return fmt.Errorf("the state of the service instance is %q", there.Instance.State)
		}
		tx.SetInstanceState(failed.InstanceID, store.Creating)
		anew = tx.InsertTask(store.NewTask{InstanceID: failed.InstanceID, Kind: store.Provision,
			PlanID: there.Instance.PlanID, Request: failed.Request})
		return nil
	})
	if err != nil {
		return failed, fmt.Errorf("%s is not tried again: %w", task.Token(failed.ID), err)
	}
	return *anew, nil
}

// deleteAgain records the task of a deletion that failed, for any worker.
func deleteAgain(ctx context.Context, s *store.Store, failed store.Task) (store.Task, error) {
	var anew *store.Task
	err := s.InTx(ctx, func(tx *store.Tx) error {
		there, err := tx.Begin(ctx, failed.InstanceID, failed.BindingID)
		if err != nil {
			return err
		}
		if err := failedToDelete(there, failed); err != nil {
			return err
		}
		if failed.Kind == store.Deprovision { // an unbind under way, which ends with the instance
			for _, a := range there.Active {
				tx.CancelTask(a.ID, cancelledByDeprovision)
			}
		}
		anew = tx.InsertTask(store.NewTask{InstanceID: failed.InstanceID, BindingID: failed.BindingID, Kind: failed.Kind,
			PlanID: there.Instance.PlanID, Request: failed.Request, Description: kinds[failed.Kind].beginning})
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		err = errors.New("what it was to delete is gone")
	}
	if err != nil {
		return failed, fmt.Errorf("%s is not tried again: %w", task.Token(failed.ID), err)
	}
	return *anew, nil
}

// failedToDelete returns an error unless what the task was to delete is still as its failure left it.
func failedToDelete(there store.Beginning, failed store.Task) error {
	for _, active := range there.Active {
		if active.BindingID == "" || active.BindingID == failed.BindingID {
			return fmt.Errorf("%s is in progress there", task.Token(active.ID))
		}
	}
	switch {
	case failed.Kind == store.Deprovision && there.Instance.State != store.DeleteFailed:
		return fmt.Errorf("the state of the service instance is %q", there.Instance.State)
	case failed.Kind == store.Unbind && there.Binding == nil:
		return store.ErrNotFound
	case failed.Kind == store.Unbind && there.Binding.State != store.Ending:
		return fmt.Errorf("the state of the service binding is %q", there.Binding.State)
	}
	return nil
}
