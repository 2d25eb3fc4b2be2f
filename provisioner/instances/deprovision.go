package instances

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// DeprovisionRequest asks to delete an instance. Plan is the one that the platform names. Once the instance is found,
// its own plan is used instead.
type DeprovisionRequest struct {
	InstanceID        string
	Plan              plan.Plan
	AcceptsIncomplete bool
}

// Deprovision deletes an instance and cancels all tasks in progress on it. OSB API, "Deprovisioning".
func (is *Instances) Deprovision(ctx context.Context, q DeprovisionRequest) (engine.Result, error) {
	if _, err := engine.RespondsAsync(q.Plan, q.AcceptsIncomplete); err != nil {
		return engine.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, engine.SyncDeadline)
	defer cancel()
	_, result, err := is.Operate(ctx, store.Deprovision, func(tx *store.Tx) (engine.Decision, error) {
		return is.decideDeprovision(ctx, tx, q)
	})
	return result, err
}

func (is *Instances) decideDeprovision(ctx context.Context, tx *store.Tx,
	q DeprovisionRequest) (d engine.Decision, err error) {
	there, err := tx.Begin(ctx, q.InstanceID, "")
	if errors.Is(err, store.ErrNotFound) {
		there, err = tx.BeginAbsent(ctx, q.InstanceID)
	}
	if errors.Is(err, store.ErrNotFound) { // the commit records that this was reported
		d.Refusal = engine.Refuse(engine.AlreadyDeleted, "There is no service instance with this id.")
		return d, nil
	}
	if err != nil {
		return d, err
	}
	i := there.Instance
	d = engine.Decision{Instance: i, Cancelled: there.Active}
	if i.ServiceID != q.Plan.ServiceID {
		return d, engine.Refuse(engine.Invalid, "The service_id is not that of this service instance.")
	}
	if d.Async, err = engine.RespondsAsync(is.PlanOf(i), q.AcceptsIncomplete); err != nil {
		return d, err
	}
	if active := there.Task(""); active != nil && active.Kind == store.Deprovision {
		d.Task, d.Joined, d.Cancelled = active, true, nil
		return d, nil
	}
	for _, t := range d.Cancelled {
		tx.CancelTask(t.ID, engine.CancelledByDeprovision)
	}
	r := engine.Request{Async: d.Async, Interrupts: len(d.Cancelled) > 0}
	if r.GivesBack, err = is.adopts(ctx, i); err == nil && !r.GivesBack {
		r.RetainDays, err = is.retained.RetainsFor(ctx, i)
	}
	if err != nil {
		return d, err
	}
	if active := there.Task(""); active != nil && active.Kind == store.Restore && r.RetainDays > 0 {
		return d, engine.ErrBusy // a half-restored database would be kept
	}
	d.Task = tx.InsertTask(is.NewTask(ctx, store.NewTask{InstanceID: i.ID, Kind: store.Deprovision, PlanID: i.PlanID,
		Request: r.JSON()}))
	d.Workflow = is.deletion(i, r, there.Accounts)
	return d, nil
}

var deprovisionKind = engine.Kind[*Instances]{
	Beginning: "Deleting the service instance",
	Kind:      task.Kind{Advice: "Delete the service instance again later."},
	Workflow: func(ctx context.Context, is *Instances, t store.Task) (task.Workflow, error) {
		i, r, err := is.InstanceTask(ctx, t)
		if err != nil {
			return task.Workflow{}, err
		}
		accounts, err := is.Store.Bindings.Accounts(ctx, i.ID)
		if err != nil {
			return task.Workflow{}, fmt.Errorf("list the accounts of instance %q: %w", i.ID, err)
		}
		return is.deletion(i, r, accounts), nil
	},
}

// deletion is the workflow that a deprovision has recorded.
func (is *Instances) deletion(i store.Instance, r engine.Request, accounts []store.BindingAccount) (w task.Workflow) {
	switch {
	case r.GivesBack:
		w = is.giveBackWorkflow(i)
	case r.RetainDays > 0:
		w = is.retained.RetainWorkflow(i, accounts, r.RetainDays)
	default:
		w = is.deprovisionWorkflow(i, accounts)
	}
	if r.Interrupts {
		w.Steps = append([]task.Step{is.backups.DropLeft(i)}, w.Steps...)
	}
	if i.Other != nil {
		w.Steps = append([]task.Step{is.removeOther(i)}, w.Steps...)
	}
	return w
}

// deprovisionWorkflow removes an instance and everything that a cancelled provision, bind or unbind may have left.
// accounts are all accounts of the instance: none is added once its deprovision is recorded.
func (is *Instances) deprovisionWorkflow(i store.Instance, accounts []store.BindingAccount) task.Workflow {
	w := task.Workflow{
		Succeeded: func(tx *store.Tx, _ task.Memory) { tx.DeleteInstance(i.ID) },
		Failed:    func(tx *store.Tx, _ task.Memory, _ bool) { tx.SetInstanceState(i.ID, store.DeleteFailed) },
	}
	var parameters plan.InstanceParameters
	var undone []task.Step
	if json.Unmarshal(i.Parameters, &parameters) == nil && parameters.CloneFrom != "" { // it may not have been finished
		undone = []task.Step{{Name: "drop reader", Progress: "Dropping the account that read",
			Timeout: steps.AccountsTimeout,
			Do: copying.Filling{Copier: is.copier, Instance: i, Parameters: parameters,
				Lock: steps.InstanceLock(i.ID)}.DropReader}}
	}
	if i.Location.Dedicated() {
		w.Steps = []task.Step{{Name: "destroy", Progress: "Removing the server", Timeout: steps.LaunchTimeout,
			Do: func(ctx context.Context, _ *task.Run) error { return is.Fleet.Destroy(ctx, i.Location) }}}
		w.Steps = append(undone, w.Steps...)
		return w
	}
	// The accounts are shut before the database is dropped, because their sessions could create it again. They are dropped
	// afterwards, because the server may refuse to drop an account that views or routines name as their definer.
	w.Steps = []task.Step{
		{Name: "end accounts", Progress: "Closing the accounts", Timeout: steps.AccountsTimeout,
			Do: func(ctx context.Context, run *task.Run) error { return is.shutAccounts(ctx, run, i, accounts) }},
		{Name: "drop database", Progress: "Dropping the database", Timeout: steps.DropTimeout,
			Do: is.InSession(i, steps.InstanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
				return s.Databases.Drop(ctx, i.Database)
			})},
		{Name: "drop accounts", Progress: "Dropping the accounts", Timeout: steps.AccountsTimeout,
			Do: func(ctx context.Context, run *task.Run) error {
				return is.copier.EachAccount(ctx, run, i, accounts,
					func(ctx context.Context, s *mysqladmin.Session, account string) error {
						return s.Accounts.DropShut(ctx, account)
					})
			}},
	}
	w.Steps = append(undone, w.Steps...)
	return w
}

// shutAccounts shuts all accounts of an instance, even if the server returns an error for one of them. Then it waits
// once, for all accounts together, until no login to them is pending.
func (is *Instances) shutAccounts(ctx context.Context, run *task.Run, i store.Instance,
	accounts []store.BindingAccount) error {
	var names []string
	pending := mysqladmin.PendingLogins{}
	var refused error
	shut := func(ctx context.Context, s *mysqladmin.Session, account string) error {
		found, err := s.Accounts.Shut(ctx, account)
		names = append(names, account)
		pending.Add(found)
		if mysqladmin.Refused(err) {
			refused = errors.Join(refused, err)
			return nil
		}
		return err
	}
	err := is.copier.EachAccount(ctx, run, i, accounts, shut)
	if err == nil && len(pending) > 0 {
		err = is.InSession(i, steps.InstanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
			return s.Accounts.EndLogins(ctx, pending, names...)
		})(ctx, run)
	}
	return errors.Join(refused, err)
}
