package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// UpdateRequest asks for another plan, or for the maintenance version that the catalog has for the plan.
type UpdateRequest struct {
	InstanceID        string
	ServiceID         string
	Plan              plan.Plan // the instance's present plan, or another
	Parameters        plan.UpdateParameters
	Upgrade           bool // set the plan's maintenance version, as a change of plan also does
	AcceptsIncomplete bool
	Context           json.RawMessage // has the instance's present name, if the platform sends it
}

// Update changes an instance's plan. A request that changes nothing succeeds at once. OSB API, "Updating a Service
// Instance".
func (p *Provisioner) Update(ctx context.Context, q UpdateRequest) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, syncDeadline)
	defer cancel()
	i, err := p.instance(ctx, q.InstanceID)
	if err != nil {
		return Result{}, err
	}
	if i.ServiceID != q.ServiceID {
		return Result{}, refuse(Invalid, "The service_id is not that of this service instance.")
	}
	from, to := p.planOf(i), q.Plan
	async, err := respondsAsync(to, q.AcceptsIncomplete)
	if err != nil {
		return Result{}, err
	}
	if q.Parameters.Backup != "" {
		return p.backUp(ctx, i, q)
	}
	if q.Parameters.RestoreBackup != "" {
		return p.restoreInPlace(ctx, i, q)
	}
	moves, err := p.moves(i, to)
	if err != nil {
		return Result{}, err
	}
	if !moves && i.Location.Dedicated() {
		if err := keepsMembers(i, from, to); err != nil {
			return Result{}, err
		}
	}
	if moves { // which takes longer than a platform waits
		if async = true; !q.AcceptsIncomplete {
			return Result{}, errAsyncRequired
		}
	}
	r := request{Async: async, PlanID: to.ID, MaintenanceVersion: i.MaintenanceVersion, Moves: moves,
		KeepDeletedDays: q.Parameters.KeepDeletedDays}
	if r.MaintenanceVersion, r.Version, err = p.maintenance(i, from, q, moves); err != nil {
		return Result{}, err
	}
	idle, err := p.idle(ctx, i)
	if err != nil {
		return Result{}, err
	}
	if idle { // a server that is being changed may not answer how much data it holds
		if err := p.fits(ctx, i, from, to); err != nil {
			return Result{}, err
		}
	}
	if moves && idle {
		return p.updateByMove(ctx, i, to, r)
	}
	return p.update(ctx, i, to, r, nil)
}

// maintenance returns the maintenance version that an update brings, and the version to which it upgrades the server.
// Platforms that do not know of maintenance_info do not ask for an upgrade: with them, a change of plan brings none.
func (p *Provisioner) maintenance(i store.Instance, from plan.Plan, q UpdateRequest,
	moves bool) (maintenance, version string, err error) {
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

// update records an update and runs it. where is the destination of the data if they are to be moved.
func (p *Provisioner) update(ctx context.Context, i store.Instance, to plan.Plan, r request,
	where *destination) (Result, error) {
	_, result, err := p.operate(ctx, store.Update, func(tx *store.Tx) (decision, error) {
		return p.decideUpdate(ctx, tx, i.ID, to, r, where)
	})
	return result, err
}

// idle reports whether the instance is ready and nothing is in progress on it.
func (p *Provisioner) idle(ctx context.Context, i store.Instance) (bool, error) {
	latest, err := p.store.LatestTask(ctx, i.ID, "", "")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, fmt.Errorf("read the instance's latest task: %w", err)
	}
	return i.State == store.Ready && latest.State != store.InProgress, nil
}

// fits returns an error if the plan allows less data than the instance holds.
func (p *Provisioner) fits(ctx context.Context, i store.Instance, from, to plan.Plan) error {
	if from.MaxStorageMB > 0 && to.MaxStorageMB >= from.MaxStorageMB || to.ID == from.ID {
		return nil
	}
	size, err := p.databaseSize(ctx, i)
	if mysqladmin.Unreachable(err) && !errors.Is(err, store.ErrUnavailable) {
		return &Error{Code: Unavailable, Err: fmt.Errorf("measure the database: %w", err),
			Sentence: "The MySQL server does not answer just now. Try again in a minute, or tell your operator."}
	}
	if err != nil {
		return p.unlessDeleted(ctx, i.ID, fmt.Errorf("measure the database: %w", err))
	}
	if used := size.Used(to.Quota()); used > to.Quota() {
		return refuse(TooMuchData, "The database holds %d MiB and plan %s allows %d MiB. "+
			"Delete data, or choose a larger plan.", (used+1<<20-1)>>20, to.Name, to.MaxStorageMB)
	}
	return nil
}

func (p *Provisioner) databaseSize(ctx context.Context, i store.Instance) (size mysqladmin.Size, err error) {
	err = p.fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) (err error) {
		size, err = admin.DatabaseSize(ctx, i.Database)
		return err
	})
	return size, err
}

// decideUpdate decides about an update of an instance that was ready when it was looked at.
func (p *Provisioner) decideUpdate(ctx context.Context, tx *store.Tx, id string, to plan.Plan,
	r request, where *destination) (d decision, err error) {
	there, err := beginOn(ctx, tx, id)
	if err != nil {
		return d, err
	}
	i, active := there.Instance, there.Task("")
	d = decision{instance: i, async: r.Async}
	switch {
	case active != nil && active.Kind == store.Update && sameUpdate(active.Request, r):
		d.task, d.joined = active, true
		return d, nil
	case len(there.Active) > 0:
		return d, errBusy
	case i.State != store.Ready:
		return d, errNotReady
	case i.PlanID == r.PlanID && i.MaintenanceVersion == r.MaintenanceVersion && r.Version == "":
		if r.KeepDeletedDays.Named { // it concerns no server
			tx.SetKeepDeletedDays(id, r.KeepDeletedDays.N)
		}
		return d, nil
	case i.FrozenSince != nil:
		return d, errFrozen
	}
	if bindings := countBindings(there.Accounts); i.PlanID != to.ID && bindings > to.MaxBindings {
		return d, refuse(PlanChangeRefused, "This service instance has %d service bindings, and plan %s allows %d. "+
			"Delete %d of them, or choose a larger plan.", bindings, to.Name, to.MaxBindings, bindings-to.MaxBindings)
	}
	if r.Moves {
		if err := where.record(ctx, tx, &i); err != nil {
			return d, err
		}
	}
	if p.vault != nil {
		recordUpgradeBackup(tx, p.plans, i, &r)
	}
	d.task = tx.InsertTask(p.newTask(ctx, store.NewTask{InstanceID: id, Kind: store.Update, PlanID: r.PlanID,
		Request: r.json()}))
	if i.PlanID != to.ID && to.Limits.Any() {
		counts, err := tx.CountInstances(ctx, i.OrganizationGUID, to.ID)
		if err == nil {
			err = withinPlan(to, counts)
		}
		if err != nil {
			return d, err
		}
	}
	d.workflow = p.updateWorkflow(i, r)
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

var errNotReady = refuse(Invalid, "The creation or deletion of this service instance failed. "+
	"Delete the service instance and create it again.")

// sameUpdate reports whether a recorded request asks for the same as r.
func sameUpdate(recorded json.RawMessage, r request) bool {
	var was request
	if json.Unmarshal(recorded, &was) != nil {
		return false
	}
	was.Async, was.BackupID = r.Async, r.BackupID
	return was == r
}

var updateKind = kind{
	beginning: "Updating the service instance",
	Kind:      task.Kind{Advice: "The service instance stays as it was; update it again later.", Undoable: true},
	workflow: func(ctx context.Context, p *Provisioner, t store.Task) (task.Workflow, error) {
		i, r, err := p.instanceTask(ctx, t)
		if err != nil {
			return task.Workflow{}, err
		}
		return p.updateWorkflow(i, r), nil
	},
}

// updateWorkflow changes an instance's plan. If the instance is over its quota but below that of the new plan, its
// accounts may write again when the task ends.
func (p *Provisioner) updateWorkflow(i store.Instance, r request) task.Workflow {
	if r.Moves {
		return p.moveWorkflow(i, r)
	}
	before, after, cleanup := p.upgradeSteps(i, r)
	w := task.Workflow{
		Steps:   slices.Concat(before, p.changePlan(i, i.PlanID, r.PlanID, true), after),
		Cleanup: cleanup,
		Durable: true,
		Succeeded: func(tx *store.Tx, m task.Memory) {
			tx.SetInstancePlan(i.ID, r.PlanID, r.MaintenanceVersion)
			p.setVersion(tx, i, r)
			if r.KeepDeletedDays.Named {
				tx.SetKeepDeletedDays(i.ID, r.KeepDeletedDays.N)
			}
			if p.eventsDiffer(i.PlanID, r.PlanID) {
				tx.SetEvents(i.ID, p.plans.Get(r.PlanID).Events)
			}
			var released []store.BindingAccount
			if found, err := m.Recall(releasedAccounts, &released); !found || err != nil {
				return // the next round of the quota guard releases them if that is due
			}
			tx.SetOver(i.ID, false)
			for _, a := range released {
				tx.SetReconciled(a.Account, p.plans.Get(r.PlanID).Events)
			}
		},
	}
	if !p.plans.Get(i.PlanID).Removed {
		w.Cleanup = append(w.Cleanup, p.changePlan(i, r.PlanID, i.PlanID, false)...)
	}
	return w
}

// eventsDiffer reports whether accounts have to lose or get the EVENT privilege. It is true if the old plan was removed
// from the catalog.
func (p *Provisioner) eventsDiffer(fromID, toID string) bool {
	from := p.plans.Get(fromID)
	return from.Removed || from.Events != p.plans.Get(toID).Events
}

// releasedAccounts is the key under which the task remembers the accounts of an instance over its quota that may write
// again.
const releasedAccounts = "lifted accounts"

// changePlan returns the steps that apply a plan to an instance, even if it is applied already, wholly or in part. If
// release is true, the accounts of an instance that is over its quota may write again if the new plan allows its data.
func (p *Provisioner) changePlan(i store.Instance, fromID, toID string, release bool) []task.Step {
	limitConnections := task.Step{Name: "limit connections", Progress: "Changing the connection limits",
		Timeout: accountsTimeout,
		Do: func(ctx context.Context, run *task.Run) error {
			to, err := p.plan(toID)
			if err != nil {
				return err
			}
			accounts, err := p.store.Accounts(ctx, i.ID)
			if err != nil || len(accounts) == 0 {
				return err
			}
			current, err := p.store.Instance(ctx, i.ID) // the quota guard may have changed it since
			if err != nil {
				return err
			}
			releases := false
			if release && current.OverSince != nil {
				if releases, err = p.below(ctx, i, to); err != nil {
					return err
				}
			}
			regrant := releases || current.OverSince == nil && p.eventsDiffer(fromID, toID)
			err = p.inSession(i, instanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
				return changeAccounts(ctx, s, i.Database, accounts, to, regrant)
			})(ctx, run)
			if err == nil && releases {
				return run.Remember(releasedAccounts, accounts)
			}
			return err
		}}
	if i.Location.Dedicated() {
		return []task.Step{p.resize(i, fromID, toID), limitConnections}
	}
	return []task.Step{limitConnections}
}

// changeAccounts gives accounts the connection limit of a plan and, if regrant is true, the privileges.
func changeAccounts(ctx context.Context, s *mysqladmin.Session, database string, accounts []store.BindingAccount,
	to plan.Plan, regrant bool) error {
	for _, a := range accounts {
		if err := s.SetConnectionLimit(ctx, a.Account, to.MaxConnections); err != nil {
			return err
		}
		if !regrant {
			continue
		}
		if err := s.RestoreWritePrivileges(ctx, a.Account, plan.Role(a.Role), to.Events, database); err != nil {
			return err
		}
	}
	return nil
}

// below reports whether an instance that is over its quota is below the restoring mark of another plan. It uses the
// last measurement, because the data could not grow since then.
func (p *Provisioner) below(ctx context.Context, i store.Instance, of plan.Plan) (bool, error) {
	usage, err := p.store.Usage(ctx, i.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read how much storage the instance uses: %w", err)
	}
	return usage.Bytes*100 < of.Quota()*plan.RestoreBelow, nil
}
