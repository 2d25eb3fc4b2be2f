package provisioner

import (
	"context"
	"errors"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
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
func (p *Provisioner) Unbind(ctx context.Context, q UnbindRequest) error {
	ctx, cancel := context.WithTimeout(ctx, syncDeadline)
	defer cancel()
	d, _, err := p.operate(ctx, store.Unbind, func(tx *store.Tx) (decision, error) { return p.decideUnbind(ctx, tx, q) })
	if err == nil && d.joined && d.task.Kind == store.Expire { // which left a record for this request
		err = p.store.ForgetExpired(ctx, q.InstanceID, q.BindingID)
	}
	return err
}

func (p *Provisioner) decideUnbind(ctx context.Context, tx *store.Tx, q UnbindRequest) (d decision, err error) {
	there, err := tx.Begin(ctx, q.InstanceID, q.BindingID)
	expired := false
	if err == nil && there.Binding == nil {
		expired, err = tx.ForgetExpired(ctx, q.InstanceID, q.BindingID)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && there.Binding == nil && !expired {
		return d, refuse(AlreadyDeleted, "There is no service binding with this id.")
	}
	if err != nil || expired {
		return d, err
	}
	if changing(there) {
		return d, errBusy
	}
	i, b, active := there.Instance, *there.Binding, there.Task(q.BindingID)
	d = decision{instance: i, binding: b}
	if ends(active) {
		d.task, d.joined = active, true
		return d, nil
	}
	// The binding is written before its task: transactions that end the task lock them in this order.
	tx.SetBindingState(i.ID, b.ID, store.Ending)
	if active != nil {
		tx.CancelTask(active.ID, "Cancelled, because the binding is being deleted.")
		d.cancelled = []store.Task{*active}
	}
	d.task = tx.InsertTask(p.newTask(ctx, store.NewTask{InstanceID: i.ID, BindingID: b.ID, Kind: store.Unbind,
		PlanID: i.PlanID}))
	d.workflow = p.unbindWorkflow(i, b)
	return d, nil
}

var unbindKind = kind{
	beginning: "Deleting the service binding",
	Kind:      task.Kind{Advice: "Unbind again later."},
	workflow: func(ctx context.Context, p *Provisioner, t store.Task) (task.Workflow, error) {
		i, b, err := p.bindingTask(ctx, t)
		return p.unbindWorkflow(i, b), err
	},
}

// ends reports whether a task, which may be nil, ends a binding.
func ends(t *store.Task) bool { return t != nil && (t.Kind == store.Unbind || t.Kind == store.Expire) }

// keptAccount is the key under which the task remembers that the account was not dropped, because objects run in its
// name.
const keptAccount = "kept account"

// unbindWorkflow drops the account of a binding. If views, triggers, routines or events run in its name, the account is
// locked instead, and dropped with the instance.
func (p *Provisioner) unbindWorkflow(i store.Instance, b store.Binding) task.Workflow {
	w := task.Workflow{
		Steps: []task.Step{{Name: "end account", Progress: "Closing the account",
			Do: p.inSession(i, bindingLock(i.ID, b.ID), func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
				kept, err := s.RevokeAccess(ctx, b.Account, plan.Role(b.Role), i.Database)
				return errors.Join(err, run.Remember(keptAccount, kept))
			})}},
		Succeeded: func(tx *store.Tx, m task.Memory) {
			var kept bool
			if _, err := m.Recall(keptAccount, &kept); kept || err != nil {
				tx.RecordRetiredAccount(i.ID, b.Account)
			}
			tx.DeleteBinding(i.ID, b.ID)
		},
	}
	if i.Former() {
		w.Steps = append(w.Steps, p.endFormer(i, b))
	}
	if b.CredHubName != "" {
		w.Steps = append(w.Steps, p.deleteCredentials(b))
	}
	return w
}
