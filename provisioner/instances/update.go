package instances

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Update changes an instance's plan. A request that changes nothing succeeds at once. OSB API, "Updating a Service
// Instance".
func (is *Instances) Update(ctx context.Context, q engine.UpdateRequest) (engine.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.SyncDeadline)
	defer cancel()
	i, err := is.Recorded(ctx, q.InstanceID)
	if err != nil {
		return engine.Result{}, err
	}
	if i.ServiceID != q.ServiceID {
		return engine.Result{}, engine.Refuse(engine.Invalid, "The service_id is not that of this service instance.")
	}
	from, to := is.PlanOf(i), q.Plan
	async, err := engine.RespondsAsync(to, q.AcceptsIncomplete)
	if err != nil {
		return engine.Result{}, err
	}
	if q.Parameters.Backup != "" {
		return is.backups.BackUp(ctx, i, q)
	}
	if q.Parameters.RestoreBackup != "" {
		return is.backups.RestoreInPlace(ctx, i, q)
	}
	moves, err := is.copier.Moves(i, to)
	if err != nil {
		return engine.Result{}, err
	}
	if moves { // which takes longer than a platform waits
		if async = true; !q.AcceptsIncomplete {
			return engine.Result{}, engine.ErrAsyncRequired
		}
	}
	r := engine.Request{Async: async, PlanID: to.ID, MaintenanceVersion: i.MaintenanceVersion, Moves: moves,
		KeepDeletedDays: q.Parameters.KeepDeletedDays}
	if r.MaintenanceVersion, r.Version, err = maintenance(i, from, q, moves); err != nil {
		return engine.Result{}, err
	}
	idle, err := is.idle(ctx, i)
	if err != nil {
		return engine.Result{}, err
	}
	if idle { // a server that is being changed may not answer how much data it holds
		if err := is.fits(ctx, i, from, to); err != nil {
			return engine.Result{}, err
		}
	}
	if moves && idle {
		return is.updateByMove(ctx, i, to, r)
	}
	return is.update(ctx, i, to, r, nil)
}

// maintenance returns the maintenance version that an update brings, and the version to which it upgrades the server.
// Platforms that do not know of maintenance_info do not ask for an upgrade: with them, a change of plan brings none.
func maintenance(i store.Instance, from plan.Plan, q engine.UpdateRequest,
	moves bool) (number, version string, err error) {
	if !q.Upgrade && q.Plan.ID == from.ID {
		return i.MaintenanceVersion, "", nil
	}
	if moves {
		return q.Plan.MaintenanceVersion, "", nil
	}
	version, err = upgradeTo(i, q.Plan)
	if version != "" && !q.Upgrade {
		return i.MaintenanceVersion, "", nil
	}
	return q.Plan.MaintenanceVersion, version, err
}

// update records an update and runs it. where is the destination of the data if it is to be moved.
func (is *Instances) update(ctx context.Context, i store.Instance, to plan.Plan, r engine.Request,
	where *copying.Destination) (engine.Result, error) {
	_, result, err := is.Operate(ctx, store.Update, func(tx *store.Tx) (engine.Decision, error) {
		return is.decideUpdate(ctx, tx, i.ID, to, r, where)
	})
	return result, err
}

// idle reports whether the instance is ready and nothing is in progress on it.
func (is *Instances) idle(ctx context.Context, i store.Instance) (bool, error) {
	latest, err := is.Store.Tasks.Latest(ctx, i.ID, "", "")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, fmt.Errorf("read the instance's latest task: %w", err)
	}
	return i.State == store.Ready && latest.State != store.InProgress, nil
}

// fits returns an error if the plan allows less data than the instance holds.
func (is *Instances) fits(ctx context.Context, i store.Instance, from, to plan.Plan) error {
	if from.MaxStorageMB > 0 && to.MaxStorageMB >= from.MaxStorageMB || to.ID == from.ID {
		return nil
	}
	size, err := is.DatabaseSize(ctx, i)
	if mysqladmin.Unreachable(err) && !errors.Is(err, store.ErrUnavailable) {
		return engine.Silent("", fmt.Errorf("measure the database: %w", err))
	}
	if err != nil {
		return is.UnlessDeleted(ctx, i.ID, fmt.Errorf("measure the database: %w", err))
	}
	if used := size.Used(to.Quota()); used > to.Quota() {
		return engine.Refuse(engine.TooMuchData, "The database holds %d MiB and plan %s allows %d MiB. "+
			"Delete data, or choose a larger plan.", (used+1<<20-1)>>20, to.Name, to.MaxStorageMB)
	}
	return nil
}

// decideUpdate decides about an update of an instance that was ready when it was looked at.
func (is *Instances) decideUpdate(ctx context.Context, tx *store.Tx, id string, to plan.Plan,
	r engine.Request, where *copying.Destination) (d engine.Decision, err error) {
	there, err := engine.BeginOn(ctx, tx, id)
	if err != nil {
		return d, err
	}
	i, active := there.Instance, there.Task("")
	d = engine.Decision{Instance: i, Async: r.Async}
	if active != nil && active.Kind == store.Update && sameUpdate(active.Request, r) {
		d.Task, d.Joined = active, true
		return d, nil
	}
	concerned := i.PlanID != r.PlanID || i.MaintenanceVersion != r.MaintenanceVersion || r.Version != "" // the server
	if err := (engine.Beside{Mixture: !concerned}).Refusal(there); err != nil {
		return d, err
	}
	if !concerned {
		if r.KeepDeletedDays.Named {
			tx.SetKeepDeletedDays(id, r.KeepDeletedDays.N)
		}
		return d, nil
	}
	if bindings := countBindings(there.Accounts); i.PlanID != to.ID && bindings > to.MaxBindings {
		return d, engine.Refuse(engine.PlanChangeRefused,
			"This service instance has %d service bindings, and plan %s allows %d. "+
				"Delete %d of them, or choose a larger plan.", bindings, to.Name, to.MaxBindings, bindings-to.MaxBindings)
	}
	if r.Moves {
		if err := where.Record(ctx, tx, &i); err != nil {
			return d, err
		}
	}
	if is.backups.Kept() {
		recordUpgradeBackup(tx, is.Plans, i, &r)
	}
	d.Task = tx.InsertTask(is.NewTask(ctx, store.NewTask{InstanceID: id, Kind: store.Update, PlanID: r.PlanID,
		Request: r.JSON()}))
	if i.PlanID != to.ID && to.Limits.Any() {
		counts, err := tx.CountInstances(ctx, i.OrganizationGUID, to.ID)
		if err == nil {
			err = withinPlan(to, counts)
		}
		if err != nil {
			return d, err
		}
	}
	d.Workflow = is.updateWorkflow(i, r)
	return d, nil
}

// countBindings counts the accounts whose bindings exist: some are kept after the unbind.
func countBindings(accounts []store.BindingAccount) (n int) {
	for _, a := range accounts {
		if a.BindingID != "" {
			n++
		}
	}
	return n
}

// sameUpdate reports whether a recorded request asks for the same as r.
func sameUpdate(recorded json.RawMessage, r engine.Request) bool {
	var was engine.Request
	if json.Unmarshal(recorded, &was) != nil {
		return false
	}
	was.Async, was.BackupID = r.Async, r.BackupID
	return was == r
}

var updateKind = engine.Kind[*Instances]{
	Beginning: "Updating the service instance",
	Kind:      task.Kind{Advice: "The service instance stays as it was; update it again later.", Undoable: true},
	Workflow:  engine.OfInstance((*Instances).updateWorkflow),
}

// updateWorkflow changes an instance's plan. If the instance is over its quota but below that of the new plan, its
// accounts may write again when the task ends.
func (is *Instances) updateWorkflow(i store.Instance, r engine.Request) task.Workflow {
	if r.Moves {
		return is.copier.MoveWorkflow(i, r)
	}
	before, after, cleanup := is.upgradeSteps(i, r)
	w := task.Workflow{
		Steps:   slices.Concat(before, is.changePlan(i, i.PlanID, r.PlanID, true), after),
		Cleanup: cleanup,
		Durable: true,
		Succeeded: func(tx *store.Tx, m task.Memory) {
			tx.SetInstancePlan(i.ID, r.PlanID, r.MaintenanceVersion)
			if r.Version != "" { // what the server was upgraded to
				tx.SetVersion(i.ID, is.Plans.Get(r.PlanID).Flavour, r.Version)
			}
			if r.KeepDeletedDays.Named {
				tx.SetKeepDeletedDays(i.ID, r.KeepDeletedDays.N)
			}
			if eventsDiffer(is.Plans, i.PlanID, r.PlanID) {
				tx.SetEvents(i.ID, is.Plans.Get(r.PlanID).Events)
			}
			released, found, err := releasedAccounts.In(m)
			if !found || err != nil {
				return // the next round of the quota guard releases them if that is due
			}
			tx.SetOver(i.ID, false)
			for _, a := range released {
				tx.SetReconciled(a.Account, is.Plans.Get(r.PlanID).Events)
			}
		},
	}
	if !is.Plans.Get(i.PlanID).Removed {
		w.Cleanup = append(w.Cleanup, is.changePlan(i, r.PlanID, i.PlanID, false)...)
	}
	return w
}

// eventsDiffer reports whether accounts have to lose or get the EVENT privilege. It is true if the old plan was removed
// from the catalog.
func eventsDiffer(plans plan.Set, fromID, toID string) bool {
	from := plans.Get(fromID)
	return from.Removed || from.Events != plans.Get(toID).Events
}

// releasedAccounts are the accounts of an instance over its quota that may write again.
const releasedAccounts task.Key[[]store.BindingAccount] = "lifted accounts"

// changePlan returns the steps that apply a plan to an instance, even if it is applied already, wholly or in part. If
// release is true, the accounts of an instance that is over its quota may write again if the new plan allows its data.
func (is *Instances) changePlan(i store.Instance, fromID, toID string, release bool) []task.Step {
	limitConnections := task.Step{Name: "limit connections", Progress: "Changing the connection limits",
		Timeout: steps.AccountsTimeout,
		Do: func(ctx context.Context, run *task.Run) error {
			to, err := is.Plan(toID)
			if err != nil {
				return err
			}
			accounts, err := is.Store.Bindings.Accounts(ctx, i.ID)
			if err != nil || len(accounts) == 0 {
				return err
			}
			current, err := is.Store.Instances.Get(ctx, i.ID) // the quota guard may have changed it since
			if err != nil {
				return err
			}
			releases := false
			if release && current.OverSince != nil {
				if releases, err = is.Below(ctx, i, to); err != nil {
					return err
				}
			}
			regrant := releases || current.OverSince == nil && eventsDiffer(is.Plans, fromID, toID)
			err = is.InSession(i, steps.InstanceLock(i.ID),
				func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
					return changeAccounts(ctx, s, i.Database, accounts, to, regrant)
				})(ctx, run)
			if err == nil && releases {
				return releasedAccounts.Remember(run, accounts)
			}
			return err
		}}
	if i.Location.Dedicated() {
		return []task.Step{is.Resize(i, fromID, toID), limitConnections}
	}
	return []task.Step{limitConnections}
}

// changeAccounts gives accounts the connection limit of a plan and, if regrant is true, the privileges.
func changeAccounts(ctx context.Context, s *mysqladmin.Session, database string, accounts []store.BindingAccount,
	to plan.Plan, regrant bool) error {
	for _, a := range accounts {
		if err := s.Accounts.SetConnectionLimit(ctx, a.Account, to.MaxConnections); err != nil {
			return err
		}
		if !regrant {
			continue
		}
		if err := s.Writes.RestorePrivileges(ctx, a.Account, plan.Role(a.Role), to.Events, database); err != nil {
			return err
		}
	}
	return nil
}
