package provisioner

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Instance reads an instance that a platform may fetch. One that is being created is NotFound yet, and stays so if its
// creation fails; one that is being changed is Busy. OSB API, "Fetching a Service Instance".
func (p *Provisioner) Instance(ctx context.Context, id string) (store.Instance, error) {
	// The task is read before the instance: had it ended in between, the instance shows how.
	latest, err := p.store.LatestTask(ctx, id, "", "")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Instance{}, fmt.Errorf("read the instance's latest task: %w", err)
	}
	i, err := p.store.Instance(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (i.State == store.Creating || i.State == store.CreateFailed) {
		return i, refuse(NotFound, "There is no service instance with this id.")
	}
	if err != nil {
		return i, fmt.Errorf("read the instance: %w", err)
	}
	if latest.State == store.InProgress && latest.Kind != store.Provision { // which has ended since, as the instance shows
		return i, errBusy
	}
	return i, nil
}

// Binding reads the credentials of a binding. One that is being made or ended is NotFound. OSB API, "Fetching a Service
// Binding".
func (p *Provisioner) Binding(ctx context.Context, instanceID, id string) (Credentials, error) {
	b, err := p.store.Binding(ctx, instanceID, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && b.State != store.Ready {
		return Credentials{}, refuse(NotFound, "There is no service binding with this id.")
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("read the binding: %w", err)
	}
	i, err := p.store.Instance(ctx, instanceID)
	if errors.Is(err, store.ErrNotFound) { // it was deleted meanwhile, with its bindings
		return Credentials{}, refuse(NotFound, "There is no service binding with this id.")
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("read the binding's instance: %w", err)
	}
	return p.credentials(ctx, i, b)
}

// Operation is what has become of a task.
type Operation struct {
	State       string // store.InProgress, store.Succeeded or store.Failed
	Description string // for users; never empty while the operation is in progress
}

// LastOperation tells what has become of the operation that token names, on an instance or, if bindingID is not empty,
// on a binding. Without a token, or with the bare name of a kind of operation, it is the latest one of that kind; some
// platforms keep no tokens. A finished deletion succeeds for as long as its task is kept. OSB API, "Polling Last
// Operation".
func (p *Provisioner) LastOperation(ctx context.Context, instanceID, bindingID, token string) (Operation, error) {
	t, err := p.findTask(ctx, instanceID, bindingID, token)
	if errors.Is(err, store.ErrNotFound) {
		if err := p.Held(ctx); err != nil {
			return Operation{}, err
		}
		// 400 ends the platform's polling; 404 would keep it at it for days.
		return Operation{}, refuse(Invalid, "This id has no such operation.")
	}
	if err != nil {
		return Operation{}, fmt.Errorf("read the operation: %w", err)
	}
	op := Operation{State: t.State, Description: t.Description}
	if op.State == store.InProgress && op.Description == "" { // an older release or a restored backup recorded none
		op.Description = kinds[t.Kind].beginning
	}
	return op, nil
}

func (p *Provisioner) findTask(ctx context.Context, instanceID, bindingID, token string) (store.TaskStatus, error) {
	switch token {
	case "", store.Provision, store.Update, store.Deprovision, store.Bind, store.Unbind:
		t, err := p.store.LatestTask(ctx, instanceID, bindingID, token)
		return store.TaskStatus{Kind: t.Kind, State: t.State, Description: t.Description, PlanID: t.PlanID}, err
	}
	id, ok := task.ParseToken(token)
	if !ok {
		return store.TaskStatus{}, store.ErrNotFound
	}
	return p.store.TaskStatus(ctx, id, instanceID, bindingID)
}

// instance reads an instance whatever its state, one that is just being recorded too.
func (p *Provisioner) instance(ctx context.Context, id string) (store.Instance, error) {
	i, err := p.store.Instance(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		i, err = p.store.InstanceAfterOthers(ctx, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		return i, refuse(NotFound, "There is no service instance with this id.")
	}
	if err != nil {
		return i, fmt.Errorf("read the instance: %w", err)
	}
	return i, nil
}
