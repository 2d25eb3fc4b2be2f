package provisioner

import (
	"context"
	"encoding/json"
	"fmt"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// advice is what a user can do about a failure of each kind of task.
var advice = map[string]string{
	store.Provision:   "Delete the service instance and create it again.",
	store.Update:      "The service instance stays as it was; update it again later.",
	store.Deprovision: "Delete the service instance again later.",
	store.Bind:        "Bind again later.",
	store.Unbind:      "Unbind again later.",
}

// CancelTask is task.Cancel for the kinds of tasks there are.
func CancelTask(ctx context.Context, s *store.Store, id int64) (store.Task, error) {
	return task.Cancel(ctx, s, id, advice)
}

// kinds are the kinds of tasks. A workflow looks for its plan only in the steps that need it: where it is not in the
// catalog, they wait for a broker that knows it, and what was done can still be undone.
func (p *Provisioner) kinds() map[string]task.Kind {
	return map[string]task.Kind{
		store.Provision: p.ofInstance(store.Provision,
			func(_ context.Context, i store.Instance, r request) (task.Workflow, error) {
				return p.provisionWorkflow(i, r, instanceLock(i.ID))
			}),
		store.Update: p.ofInstance(store.Update, func(_ context.Context, i store.Instance, r request) (task.Workflow, error) {
			return p.updateWorkflow(i, r), nil
		}),
		store.Deprovision: p.ofInstance(store.Deprovision,
			func(ctx context.Context, i store.Instance, _ request) (task.Workflow, error) {
				accounts, err := p.store.Accounts(ctx, i.ID)
				if err != nil {
					return task.Workflow{}, fmt.Errorf("list the accounts of instance %q: %w", i.ID, err)
				}
				return p.deprovisionWorkflow(i, accounts, instanceLock(i.ID)), nil
			}),
		store.Bind: p.ofBinding(store.Bind, func(i store.Instance, b store.Binding) task.Workflow {
			return p.bindWorkflow(i, b, bindingLock(i.ID, b.ID))
		}),
		store.Unbind: p.ofBinding(store.Unbind, func(i store.Instance, b store.Binding) task.Workflow {
			return p.unbindWorkflow(i, b, bindingLock(i.ID, b.ID))
		}),
	}
}

// ofInstance is a kind of task of an instance: it reads what the task is about.
func (p *Provisioner) ofInstance(kind string,
	workflow func(context.Context, store.Instance, request) (task.Workflow, error)) task.Kind {
	return task.Kind{Advice: advice[kind], Workflow: func(ctx context.Context, t store.Task) (task.Workflow, error) {
		i, err := p.store.Instance(ctx, t.InstanceID)
		if err != nil {
			return task.Workflow{}, fmt.Errorf("read the instance of %s: %w", task.Token(t.ID), err)
		}
		var r request
		if err := json.Unmarshal(t.Request, &r); err != nil {
			return task.Workflow{}, fmt.Errorf("read the request of %s: %w", task.Token(t.ID), err)
		}
		return workflow(ctx, i, r)
	}}
}

// ofBinding is a kind of task of a binding: it reads what the task is about.
func (p *Provisioner) ofBinding(kind string,
	workflow func(store.Instance, store.Binding) task.Workflow) task.Kind {
	return task.Kind{Advice: advice[kind], Workflow: func(ctx context.Context, t store.Task) (task.Workflow, error) {
		i, err := p.store.Instance(ctx, t.InstanceID)
		if err != nil {
			return task.Workflow{}, fmt.Errorf("read the instance of %s: %w", task.Token(t.ID), err)
		}
		b, err := p.store.Binding(ctx, t.InstanceID, t.BindingID)
		if err != nil {
			return task.Workflow{}, fmt.Errorf("read the binding of %s: %w", task.Token(t.ID), err)
		}
		return workflow(i, b), nil
	}}
}
