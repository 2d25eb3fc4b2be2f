package engine

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Instance reads an instance that a platform may fetch. An instance is NotFound while it is being created, and if its
// creation failed, and Busy while it is being changed. OSB API, "Fetching a Service Instance".
func (e *Engine) Instance(ctx context.Context, id string) (store.Instance, error) {
	// The task is read before the instance: if it ends in between, the instance shows how.
	latest, err := e.Store.Tasks.Latest(ctx, id, "", "")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Instance{}, fmt.Errorf("read the instance's latest task: %w", err)
	}
	i, err := e.Store.Instances.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (i.State == store.Creating || i.State == store.CreateFailed) {
		return i, Refuse(NotFound, "There is no service instance with this id.")
	}
	if err != nil {
		return i, fmt.Errorf("read the instance: %w", err)
	}
	// A provision has ended since then, and a backup changes nothing.
	if latest.State == store.InProgress && latest.Kind != store.Provision && latest.Kind != store.BackUp {
		return i, ErrBusy
	}
	return i, nil
}

// Operation is the state of a task.
type Operation struct {
	State       string // store.InProgress, store.Succeeded or store.Failed
	Description string // for users; never empty while the operation is in progress
}

// LastOperation returns the state of the operation that token names, on an instance or, if bindingID is not empty, on a
// binding. Some platforms keep no tokens. So token may also be empty, which means the latest operation, or a kind of
// operation, which means the latest of that kind. A finished deletion is reported as succeeded for as long as its task
// is kept. OSB API, "Polling Last Operation".
func (e *Engine) LastOperation(ctx context.Context, instanceID, bindingID, token string) (Operation, error) {
	t, err := e.findTask(ctx, instanceID, bindingID, token)
	if errors.Is(err, store.ErrNotFound) {
		if err := e.Held(ctx); err != nil {
			return Operation{}, err
		}
		// 400 ends the platform's polling; after a 404 it would poll for days.
		return Operation{}, Refuse(Invalid, "This id has no such operation.")
	}
	if err != nil {
		return Operation{}, fmt.Errorf("read the operation: %w", err)
	}
	op := Operation{State: t.State, Description: t.Description}
	if op.State == store.InProgress && op.Description == "" { // it was retried, and no step has begun
		op.Description = e.kinds[t.Kind].beginning
	}
	return op, nil
}

func (e *Engine) findTask(ctx context.Context, instanceID, bindingID, token string) (store.TaskStatus, error) {
	if _, isKind := e.kinds[token]; isKind || token == "" {
		t, err := e.Store.Tasks.Latest(ctx, instanceID, bindingID, token)
		return store.TaskStatus{Kind: t.Kind, State: t.State, Description: t.Description}, err
	}
	id, ok := task.ParseToken(token)
	if !ok {
		return store.TaskStatus{}, store.ErrNotFound
	}
	return e.Store.Tasks.Status(ctx, id, instanceID, bindingID)
}

// Recorded reads an instance in any state. If another transaction is recording it, instance waits for that.
func (e *Engine) Recorded(ctx context.Context, id string) (store.Instance, error) {
	i, err := e.Store.Instances.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		i, err = e.Store.Instances.AfterOthers(ctx, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		return i, Refuse(NotFound, "There is no service instance with this id.")
	}
	if err != nil {
		return i, fmt.Errorf("read the instance: %w", err)
	}
	return i, nil
}
