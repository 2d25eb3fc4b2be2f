package bindings

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/credhub"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// ErrChanging says that a binding's password cannot be replaced while an operation changes the binding or its instance.
var ErrChanging = errors.New("an operation is changing it")

// RotateBinding records a new password for the account of a binding, and a task, for any broker, that sets it and ends
// the account's sessions. Repeated binds and fetches get the new password from now on. It returns ErrChanging if the
// instance or the binding is being changed, and store.ErrNotFound if there is no such binding. It changes nothing while
// CredHub, which is nil if there is none, does not store what it has to.
func RotateBinding(ctx context.Context, s *store.Store, hub *credhub.Client, instanceID, id string) (*store.Task,
	error) {
	b, err := s.Bindings.Get(ctx, instanceID, id)
	if err != nil {
		return nil, fmt.Errorf("read the binding: %w", err)
	}
	if b.CredHubName != "" {
		if hub == nil {
			return nil, errNoCredHub
		}
		if err := hub.CheckDeleting(ctx, credhub.PathOf(b.CredHubName)); err != nil {
			return nil, err
		}
	}
	var recorded *store.Task
	err = s.InTx(ctx, func(tx *store.Tx) error {
		there, err := tx.Begin(ctx, instanceID, id)
		switch {
		case err == nil && there.Binding == nil:
			return store.ErrNotFound
		case err != nil:
			return err
		case changing(there) || there.Task(id) != nil || there.Binding.State != store.Ready:
			return ErrChanging
		}
		if err := tx.SetBindingPassword(instanceID, id, engine.NewPassword()); err != nil {
			return err
		}
		recorded = tx.InsertTask(store.NewTask{InstanceID: instanceID, BindingID: id, Kind: store.Rotate,
			PlanID: there.Instance.PlanID, Description: rotateKind.Beginning})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("record a new password: %w", err)
	}
	return recorded, nil
}

var rotateKind = engine.Kind[*Bindings]{
	Beginning: "Replacing the password of the service binding",
	Kind:      task.Kind{Advice: "An operator has to replace the password again."},
	Workflow:  ofBinding((*Bindings).rotateWorkflow),
}

// rotateWorkflow sets the recorded password of a binding's account, and ends its sessions. If the instance was moved,
// the account at the old place ends.
func (bs *Bindings) rotateWorkflow(i store.Instance, b store.Binding) task.Workflow {
	w := task.Workflow{Steps: []task.Step{{Name: "replace password", Progress: "Replacing the password",
		Do: bs.InSession(i, steps.BindingLock(i.ID, b.ID),
			func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
				return s.Accounts.ReplacePassword(ctx, b.Account, b.Password)
			})}}, Durable: true}
	if i.Former() {
		w.Steps = append(w.Steps, bs.endFormer(i, b))
	}
	if b.CredHubName != "" {
		w.Steps = append(w.Steps, bs.storeChanged(i, b))
	}
	return w
}
