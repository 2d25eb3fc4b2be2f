package recovery

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

const (
	// restored is what users read about an operation that was in progress when the backup was made, if it is not known how
	// it ended.
	restored = "The broker was restored from a backup while this was in progress. Check its state, and try again."
	// undone is the same for an operation that was already being undone.
	undone = "It failed, and was undone."
)

// endTask ends a task that was in progress when the backup was made. If the instance shows how it ended, that outcome
// is recorded.
func (r *recovery) endTask(ctx context.Context, t store.Task) error {
	if r.places.moves(t) { // brokers remove what it has copied so far
		_, err := r.Store.Tasks.Abort(ctx, t.ID, restored, store.Recovered)
		if err != nil && !errors.Is(err, store.ErrNotFound) { // it is being undone
			return fmt.Errorf("undo %s: %w", task.Token(t.ID), err)
		}
		return nil
	}
	err := r.Store.InTx(ctx, func(tx *store.Tx) error {
		i, err := tx.LockInstance(ctx, t.InstanceID)
		if errors.Is(err, store.ErrNotFound) { // forgotten meanwhile
			tx.EndTask(t.ID, store.Failed, restored)
			return nil
		}
		if err != nil {
			return err
		}
		state, description := store.Failed, restored
		whole := r.whole[i.ID]
		if left, err := r.Store.Retained.Adopted(ctx, i.ID); err == nil && r.undeleted(t) {
			if err := r.adoptRetained(ctx, tx, i.ID, left.ID); err != nil {
				return err
			}
		} else if err == nil {
			// Its retained data stays until it is asked for again.
			whole = false
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		switch {
		case t.Phase == store.Cleanup:
			description = undone
			if t.Kind == store.Provision {
				tx.SetInstanceState(i.ID, store.CreateFailed)
			}
		case t.Kind == store.Provision && whole:
			state, description = store.Succeeded, ""
			tx.SetInstanceState(i.ID, store.Ready)
		case t.Kind == store.Provision:
			tx.SetInstanceState(i.ID, store.CreateFailed)
		case t.Kind == store.Deprovision: // the instance still exists: the platform has to delete it again
			tx.SetInstanceState(i.ID, store.DeleteFailed)
		}
		tx.EndTask(t.ID, state, description)
		return nil
	})
	if err != nil {
		return fmt.Errorf("end %s: %w", task.Token(t.ID), err)
	}
	return nil
}

// adoptRetained records that an instance has got retained data, with all accounts that were kept with it.
func (r *recovery) adoptRetained(ctx context.Context, tx *store.Tx, id, left string) error {
	accounts, err := r.Store.Retained.Accounts(ctx, left)
	if err != nil {
		return fmt.Errorf("list the retained accounts: %w", err)
	}
	var names []string
	for _, a := range accounts {
		names = append(names, a.Account)
	}
	tx.AdoptRetained(id, names)
	return nil
}

// moves reports whether a task was moving the data of an instance, and it was not moved since.
func (p places) moves(t store.Task) bool {
	to, has := p.others[t.InstanceID]
	_, moved := p.moved(p.recorded[t.InstanceID])
	return t.Kind == store.Update && has && to.Moved == nil && !moved
}

// forgetInstance deletes the records of an instance that is gone, with its bindings. It ends the tasks that were in
// progress: a deletion has succeeded, the others have failed.
func (r *recovery) forgetInstance(ctx context.Context, id string) error {
	err := r.changing(id, func(tx *store.Tx) {
		r.endTasksOf(tx, id, "", store.Deprovision)
		tx.DeleteInstance(id)
	})(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("forget the instance: %w", err)
	}
	return nil
}
