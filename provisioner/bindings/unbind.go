package bindings

import (
	"context"
	"errors"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// UnbindRequest asks to delete a binding.
type UnbindRequest struct {
	InstanceID string
	BindingID  string
}

// Unbind deletes a binding: when it returns, the account cannot log in and its sessions are closed. OSB API,
// "Unbinding".
func (bs *Bindings) Unbind(ctx context.Context, q UnbindRequest) error {
	ctx, cancel := context.WithTimeout(ctx, engine.SyncDeadline)
	defer cancel()
	d, _, err := bs.Operate(ctx, store.Unbind, func(tx *store.Tx) (engine.Decision, error) {
		return bs.decideUnbind(ctx, tx, q)
	})
	if err == nil && d.Joined && d.Task.Kind == store.Expire { // which left a record for this request
		err = bs.Store.Bindings.ForgetExpired(ctx, q.InstanceID, q.BindingID)
	}
	return err
}

func (bs *Bindings) decideUnbind(ctx context.Context, tx *store.Tx, q UnbindRequest) (d engine.Decision, err error) {
	there, err := tx.Begin(ctx, q.InstanceID, q.BindingID)
	expired := false
	if err == nil && there.Binding == nil {
		expired, err = tx.ForgetExpired(ctx, q.InstanceID, q.BindingID)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && there.Binding == nil && !expired {
		return d, engine.Refuse(engine.AlreadyDeleted, "There is no service binding with this id.")
	}
	if err != nil || expired {
		return d, err
	}
	if changing(there) {
		return d, engine.ErrBusy
	}
	i, b, active := there.Instance, *there.Binding, there.Task(q.BindingID)
	d = engine.Decision{Instance: i, Binding: b}
	if engine.Ends(active) {
		d.Task, d.Joined = active, true
		return d, nil
	}
	// The binding is written before its task: transactions that end the task lock them in this order.
	tx.SetBindingState(i.ID, b.ID, store.Ending)
	if active != nil {
		tx.CancelTask(active.ID, "Cancelled, because the binding is being deleted.")
		d.Cancelled = []store.Task{*active}
	}
	d.Task = tx.InsertTask(bs.NewTask(ctx, store.NewTask{InstanceID: i.ID, BindingID: b.ID, Kind: store.Unbind,
		PlanID: i.PlanID}))
	d.Workflow = bs.unbindWorkflow(i, b)
	return d, nil
}

var unbindKind = engine.Kind[*Bindings]{
	Beginning: "Deleting the service binding",
	Kind:      task.Kind{Advice: "Unbind again later."},
	Workflow:  ofBinding((*Bindings).unbindWorkflow),
}

// keptAccount says that the account was not dropped, because objects run in its name.
const keptAccount task.Key[bool] = "kept account"

// unbindWorkflow drops the account of a binding. If views, triggers, routines or events run in its name, the account is
// locked instead, and dropped with the instance.
func (bs *Bindings) unbindWorkflow(i store.Instance, b store.Binding) task.Workflow {
	w := task.Workflow{
		Steps: []task.Step{{Name: "end account", Progress: "Closing the account",
			Do: bs.InSession(i, steps.BindingLock(i.ID, b.ID),
				func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
					kept, err := s.Accounts.Revoke(ctx, b.Account, i.Database)
					return errors.Join(err, keptAccount.Remember(run, kept))
				})}},
		Succeeded: func(tx *store.Tx, m task.Memory) {
			if kept, _, err := keptAccount.In(m); kept || err != nil {
				tx.RecordRetiredAccount(i.ID, b.Account)
			}
			tx.DeleteBinding(i.ID, b.ID)
		},
	}
	if i.Former() {
		w.Steps = append(w.Steps, bs.endFormer(i, b))
	}
	if b.CredHubName != "" {
		w.Steps = append(w.Steps, bs.deleteCredentials(b))
	}
	return w
}

// endFormer is the step of an unbind that ends the access of an account where the data was before it was moved.
func (bs *Bindings) endFormer(i store.Instance, b store.Binding) task.Step {
	former := i.Elsewhere()
	end := bs.InSession(former, steps.BindingLock(i.ID, b.ID),
		func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
			kept, err := s.Accounts.Revoke(ctx, b.Account, former.Database)
			if err == nil && kept {
				err = keptAccount.Remember(run, true)
			}
			return err
		})
	return task.Step{Name: "end former account", Progress: "Closing the account at the old address",
		Do: func(ctx context.Context, run *task.Run) error {
			err := end(ctx, run)
			if errors.Is(err, launcher.ErrNotFound) { // it was removed since
				return nil
			}
			return err
		}}
}
