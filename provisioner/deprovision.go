package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
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
func (p *Provisioner) Deprovision(ctx context.Context, q DeprovisionRequest) (Result, error) {
	if _, err := respondsAsync(q.Plan, q.AcceptsIncomplete); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, syncDeadline)
	defer cancel()
	_, result, err := p.operate(ctx, store.Deprovision, func(tx *store.Tx) (decision, error) {
		return p.decideDeprovision(ctx, tx, q)
	})
	return result, err
}

// cancelledByDeprovision is what users read about a task that was in progress when its instance was deleted.
const cancelledByDeprovision = "Cancelled, because the service instance is being deleted."

func (p *Provisioner) decideDeprovision(ctx context.Context, tx *store.Tx,
	q DeprovisionRequest) (d decision, err error) {
	there, err := tx.Begin(ctx, q.InstanceID, "")
	if errors.Is(err, store.ErrNotFound) {
		there, err = tx.BeginAbsent(ctx, q.InstanceID)
	}
	if errors.Is(err, store.ErrNotFound) { // the commit records that this was reported
		d.refusal = refuse(AlreadyDeleted, "There is no service instance with this id.")
		return d, nil
	}
	if err != nil {
		return d, err
	}
	i := there.Instance
	d = decision{instance: i, cancelled: there.Active}
	if i.ServiceID != q.Plan.ServiceID {
		return d, refuse(Invalid, "The service_id is not that of this service instance.")
	}
	if d.async, err = respondsAsync(p.planOf(i), q.AcceptsIncomplete); err != nil {
		return d, err
	}
	if active := there.Task(""); active != nil && active.Kind == store.Deprovision {
		d.task, d.joined, d.cancelled = active, true, nil
		return d, nil
	}
	for _, t := range d.cancelled {
		tx.CancelTask(t.ID, cancelledByDeprovision)
	}
	r := request{Async: d.async}
	if r.GivesBack, err = p.adopts(ctx, i); err == nil && !r.GivesBack {
		r.RetainDays, err = p.retainsFor(ctx, i)
	}
	if err != nil {
		return d, err
	}
	if active := there.Task(""); active != nil && active.Kind == store.Restore && r.RetainDays > 0 {
		return d, errBusy // a half-restored database would be kept
	}
	d.task = tx.InsertTask(p.newTask(ctx, store.NewTask{InstanceID: i.ID, Kind: store.Deprovision, PlanID: i.PlanID,
		Request: r.json()}))
	d.workflow = p.deletion(i, r, there.Accounts)
	return d, nil
}

var deprovisionKind = kind{
	beginning: "Deleting the service instance",
	Kind:      task.Kind{Advice: "Delete the service instance again later."},
	workflow: func(ctx context.Context, p *Provisioner, t store.Task) (task.Workflow, error) {
		i, r, err := p.instanceTask(ctx, t)
		if err != nil {
			return task.Workflow{}, err
		}
		accounts, err := p.store.Accounts(ctx, i.ID)
		if err != nil {
			return task.Workflow{}, fmt.Errorf("list the accounts of instance %q: %w", i.ID, err)
		}
		return p.deletion(i, r, accounts), nil
	},
}

// deletion is the workflow that a deprovision has recorded.
func (p *Provisioner) deletion(i store.Instance, r request, accounts []store.BindingAccount) (w task.Workflow) {
	switch {
	case r.GivesBack:
		w = p.giveBackWorkflow(i)
	case r.RetainDays > 0:
		w = p.retainWorkflow(i, accounts, r.RetainDays)
	default:
		w = p.deprovisionWorkflow(i, accounts)
	}
	if i.Other != nil {
		w.Steps = append([]task.Step{p.removeOther(i)}, w.Steps...)
	}
	return w
}

const (
	// dropTimeout bounds an attempt to drop a database: with many tables, on a slow disk, it takes minutes.
	dropTimeout = time.Hour
	// accountsTimeout bounds an attempt that changes all accounts of an instance.
	accountsTimeout = 10 * time.Minute
)

// deprovisionWorkflow removes an instance and everything that a cancelled provision, bind or unbind may have left.
// accounts are all accounts of the instance: none is added once its deprovision is recorded.
func (p *Provisioner) deprovisionWorkflow(i store.Instance, accounts []store.BindingAccount) task.Workflow {
	w := task.Workflow{
		Succeeded: func(tx *store.Tx, _ task.Memory) { tx.DeleteInstance(i.ID) },
		Failed:    func(tx *store.Tx, _ task.Memory, _ bool) { tx.SetInstanceState(i.ID, store.DeleteFailed) },
	}
	var parameters plan.InstanceParameters
	var undone []task.Step
	if json.Unmarshal(i.Parameters, &parameters) == nil && parameters.CloneFrom != "" { // it may not have been finished
		undone = []task.Step{{Name: "drop reader", Progress: "Dropping the account that read", Timeout: accountsTimeout,
			Do: filling{Provisioner: p, instance: i, parameters: parameters, lock: instanceLock(i.ID)}.dropReader}}
	}
	if i.Location.Dedicated() {
		w.Steps = []task.Step{{Name: "destroy", Progress: "Removing the server", Timeout: launchTimeout,
			Do: func(ctx context.Context, _ *task.Run) error { return p.fleet.Destroy(ctx, i.Location) }}}
		w.Steps = append(undone, w.Steps...)
		return w
	}
	// The accounts are shut before the database is dropped, because their sessions could create it again. They are dropped
	// afterwards, because the server may refuse to drop an account that views or routines name as their definer.
	w.Steps = []task.Step{
		{Name: "end accounts", Progress: "Closing the accounts", Timeout: accountsTimeout,
			Do: func(ctx context.Context, run *task.Run) error { return p.shutAccounts(ctx, run, i, accounts) }},
		{Name: "drop database", Progress: "Dropping the database", Timeout: dropTimeout,
			Do: p.inSession(i, instanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
				return s.DropDatabase(ctx, i.Database)
			})},
		{Name: "drop accounts", Progress: "Dropping the accounts", Timeout: accountsTimeout,
			Do: func(ctx context.Context, run *task.Run) error {
				return p.eachAccount(ctx, run, i, accounts,
					func(ctx context.Context, s *mysqladmin.Session, account string) error {
						return s.DropShutAccount(ctx, account)
					})
			}},
	}
	w.Steps = append(undone, w.Steps...)
	return w
}

// shutAccounts shuts all accounts of an instance, even if the server returns an error for one of them. Then it waits
// once, for all accounts together, until no login to them is pending.
func (p *Provisioner) shutAccounts(ctx context.Context, run *task.Run, i store.Instance,
	accounts []store.BindingAccount) error {
	var names []string
	var pending mysqladmin.PendingLogins
	var refused error
	shut := func(ctx context.Context, s *mysqladmin.Session, account string) error {
		found, err := s.ShutAccount(ctx, account)
		names = append(names, account)
		pending.Add(found)
		if mysqladmin.Refused(err) {
			refused = errors.Join(refused, err)
			return nil
		}
		return err
	}
	err := p.eachAccount(ctx, run, i, accounts, shut)
	if err == nil && pending.Any() {
		err = p.inSession(i, instanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
			return s.EndLogins(ctx, pending, names...)
		})(ctx, run)
	}
	return errors.Join(refused, err)
}

// eachAccount runs fn for accounts of an instance, each under the lock of its binding, because a worker whose bind was
// cancelled may still be running.
func (p *Provisioner) eachAccount(ctx context.Context, run *task.Run, i store.Instance,
	accounts []store.BindingAccount, fn func(ctx context.Context, s *mysqladmin.Session, account string) error) error {
	for _, a := range accounts {
		err := p.inSession(i, bindingLock(i.ID, a.BindingID),
			func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error { return fn(ctx, s, a.Account) })(ctx, run)
		if err != nil {
			return err
		}
	}
	return nil
}
