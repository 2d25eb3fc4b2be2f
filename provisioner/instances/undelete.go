package instances

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/retained"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// undelete records a new instance that gets the data of a deleted one, or returns store.ErrExists if it is recorded
// already.
func (is *Instances) undelete(ctx context.Context, q engine.ProvisionRequest, i store.Instance,
	async bool) (engine.Decision, error) {
	since := time.Now()
	r, err := is.findDeleted(ctx, q)
	if err == nil {
		err = is.fitsRetained(q.Plan, r)
	}
	if err != nil {
		return engine.Decision{}, cmp.Or(is.absent(ctx, i.ID), err)
	}
	i.Location, i.Database = r.Location, r.Database
	i.AdminPassword, i.NextAdminPassword = r.AdminPassword, r.NextAdminPassword
	asked := engine.Request{Async: async}
	t, err := is.Store.Retained.RecordUndelete(ctx, store.Asked{At: since, Absent: q.ReportedAbsent}, i, is.NewTask(ctx,
		store.NewTask{InstanceID: i.ID, Kind: store.Provision, PlanID: i.PlanID, Request: asked.JSON()}), r.ID,
		is.within(q.Plan))
	if errors.Is(err, store.ErrTaken) {
		return engine.Decision{}, cmp.Or(is.absent(ctx, i.ID), errTaken)
	}
	if err != nil {
		return engine.Decision{}, fmt.Errorf("record the instance: %w", err)
	}
	w, err := is.provisionWorkflow(i, asked)
	return engine.Decision{Instance: i, Task: &t, Workflow: w, Async: async, Since: since}, err
}

var errTaken = engine.Refuse(engine.Invalid, "Another request is bringing this service instance back just now. "+
	"If that fails, delete the service instance that it was to create, and try again.")

// findDeleted finds the deleted instance that a request names. What is not there and what belongs to somebody else gets
// the same answer.
func (is *Instances) findDeleted(ctx context.Context, q engine.ProvisionRequest) (store.Retained, error) {
	name := q.Parameters.Undelete
	found, err := is.Store.Retained.Find(ctx, q.Plan.ServiceID, name)
	if err != nil {
		return store.Retained{}, fmt.Errorf("find the deleted instance: %w", err)
	}
	by := copying.TenantOf(q.OrganizationGUID, q.SpaceGUID, q.Context)
	found = slices.DeleteFunc(found, func(r store.Retained) bool {
		of := copying.Tenant{Platform: r.Platform, Organization: r.OrganizationGUID, Space: r.SpaceGUID}
		return !by.MayUse(of, q.Plan, is.Plans.Get(r.PlanID))
	})
	switch {
	case len(found) == 0:
		return store.Retained{}, by.Refuse(engine.Refuse(engine.Invalid,
			"There is no deleted service instance %s in this space that can come back.", name))
	case len(found) > 1 && found[0].InstanceID != name:
		ids := make([]string, len(found))
		for n, r := range found {
			ids[n] = r.InstanceID
		}
		return store.Retained{}, engine.Refuse(engine.Invalid,
			"%d deleted service instances of this space have the name %s. "+
				"Name one of them by its GUID, the latest first: %s.", len(found), name, strings.Join(ids, ", "))
	case found[0].AdoptedBy != "" && found[0].AdoptedBy != q.InstanceID:
		return store.Retained{}, errTaken
	}
	return found[0], nil
}

// shownDeleted is how many deleted instances Deleted lists.
const shownDeleted = 50

// Deleted lists the deleted instances of an instance's tenant that can come back, the latest first.
func (is *Instances) Deleted(ctx context.Context, i store.Instance) ([]store.Retained, error) {
	of := copying.TenantOf(i.OrganizationGUID, i.SpaceGUID, i.Context)
	if !of.Complete() {
		return nil, nil
	}
	found, err := is.Store.Retained.Of(ctx, of.Platform, of.Organization, of.Space, shownDeleted)
	if err != nil {
		return nil, fmt.Errorf("list the deleted instances: %w", err)
	}
	return found, nil
}

// fitsRetained returns an error if an instance of that plan cannot have the retained data.
func (is *Instances) fitsRetained(to plan.Plan, r store.Retained) error {
	was := plan.Kind(r.Location.Kind)
	if to.Kind != was {
		return engine.Refuse(engine.Invalid, "The deleted service instance had a %s plan, and plan %s is a %s one. "+
			"Choose a %[1]s plan.", was, to.Name, to.Kind)
	}
	if server, err := is.Fleet.Shared.Server(r.Location.Server); err == nil && server.Exclusive != to.Exclusive {
		return engine.Refuse(engine.Invalid, "The server of the deleted service instance is not one for plan %s. "+
			"Choose the plan of the deleted service instance.", to.Name)
	}
	if to.Kind == plan.Dedicated {
		l, err := is.Fleet.Launcher(cmp.Or(to.Launcher, r.Location.Launcher))
		if err != nil || l.Name != r.Location.Launcher {
			return &engine.Error{Code: engine.Invalid, Err: err,
				Sentence: fmt.Sprintf("Plan %s has its servers elsewhere. "+
					"Choose the plan of the deleted service instance.", to.Name)}
		}
	}
	if r.Bytes != nil && *r.Bytes > to.Quota() && to.ID != r.PlanID {
		return engine.Refuse(engine.Invalid,
			"The data of the deleted service instance take %d MiB, and plan %s allows %d MiB. "+
				"Choose a larger plan.", (*r.Bytes+1<<20-1)>>20, to.Name, to.MaxStorageMB)
	}
	return nil
}

// undeleteWorkflow gives an instance the data of a deleted one. The accounts that objects in the database name as their
// definers get their privileges back, and nobody can log in to them. If it fails, the data stays retained.
func (is *Instances) undeleteWorkflow(i store.Instance, r engine.Request) task.Workflow {
	w := task.Workflow{
		Durable: true,
		Succeeded: func(tx *store.Tx, m task.Memory) {
			kept, _, err := retained.KeptAccounts.In(m)
			if err != nil {
				tx.Fail(err)
			}
			tx.AdoptRetained(i.ID, kept)
			tx.SetInstanceState(i.ID, store.Ready)
		},
		Failed: provisionFailed(i, r),
	}
	look := task.Step{Name: "look for the data", Progress: "Looking for the data",
		Do: func(ctx context.Context, run *task.Run) error { return is.databaseThere(ctx, run, i) }}
	revive := task.Step{Name: "revive accounts", Progress: "Bringing back views and routines",
		Timeout: steps.AccountsTimeout,
		Do: is.InSession(i, steps.InstanceLock(i.ID), func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
			return is.reviveAccounts(ctx, run, s, i)
		})}
	if i.Location.Shared() {
		w.Steps = []task.Step{look, revive}
		w.Cleanup = []task.Step{is.retainAgain(i)}
		return w
	}
	w.Steps = []task.Step{is.Launch(i), look, revive}
	w.Cleanup = []task.Step{is.retained.Suspend(i)}
	return w
}

// databaseThere returns an error unless the server has the database: one that was lost must not come back empty.
func (is *Instances) databaseThere(ctx context.Context, run *task.Run, i store.Instance) error {
	var there bool
	err := is.Fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) (err error) {
		there, err = admin.DatabaseExists(ctx, i.Database)
		return err
	})
	switch {
	case mysqladmin.CannotReach(err):
		return engine.Fail(run.Task, engine.ServerSilent, err)
	case err == nil && !there:
		return engine.Fail(run.Task, engine.RetainedLost,
			fmt.Errorf("the server %s has no database %s", i.Location.Server, i.Database))
	}
	return err
}

// reviveAccounts gives the retained accounts that are definers their privileges back, or only those to read if the data
// is frozen, and ends the others.
func (is *Instances) reviveAccounts(ctx context.Context, run *task.Run, s *mysqladmin.Session,
	i store.Instance) error {
	of, err := is.Plan(i.PlanID)
	if err != nil {
		return err
	}
	adopted, accounts, err := is.adopted(ctx, i.ID)
	if err != nil {
		return err
	}
	kept := []string{}
	for _, a := range accounts {
		stays, err := s.Accounts.Revoke(ctx, a.Account, i.Database)
		if err == nil && stays {
			kept = append(kept, a.Account)
			if adopted.Frozen {
				err = s.Accounts.GrantFrozen(ctx, a.Account, steps.RoleOf(a), i.Database)
			} else {
				err = s.Accounts.GrantRole(ctx, a.Account, steps.RoleOf(a), of.Events, i.Database)
			}
		}
		if err != nil {
			return err
		}
	}
	return retained.KeptAccounts.Remember(run, kept)
}

// adopted returns the retained data that an instance is being created from, and their accounts.
func (is *Instances) adopted(ctx context.Context, instanceID string) (store.Retained, []store.BindingAccount, error) {
	r, err := is.Store.Retained.Adopted(ctx, instanceID)
	if err != nil {
		return r, nil, fmt.Errorf("read what instance %q is created from: %w", instanceID, err)
	}
	accounts, err := is.Store.Retained.Accounts(ctx, r.ID)
	if err != nil {
		return r, nil, fmt.Errorf("list the retained accounts: %w", err)
	}
	return r, accounts, nil
}

// retainAgain is the step that undoes an undelete on a shared server.
func (is *Instances) retainAgain(i store.Instance) task.Step {
	return task.Step{Name: "end accounts", Progress: "Closing the accounts", Timeout: steps.AccountsTimeout,
		Do: is.InSession(i, steps.InstanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
			_, accounts, err := is.adopted(ctx, i.ID)
			for _, a := range accounts {
				if _, ending := retained.EndAccess(ctx, s, a, i.Database); ending != nil {
					return ending
				}
			}
			return err
		})}
}

// giveBackWorkflow deletes an instance that was to get retained data and is not ready. The data stays retained.
func (is *Instances) giveBackWorkflow(i store.Instance) task.Workflow {
	w := task.Workflow{
		Steps:     []task.Step{is.retained.Suspend(i)},
		Succeeded: func(tx *store.Tx, _ task.Memory) { tx.DeleteInstance(i.ID) },
		Failed:    func(tx *store.Tx, _ task.Memory, _ bool) { tx.SetInstanceState(i.ID, store.DeleteFailed) },
	}
	if i.Location.Shared() {
		w.Steps = []task.Step{is.retainAgain(i)}
	}
	return w
}

// adopts reports whether an instance that is not ready is being created from retained data, which it must not drop.
func (is *Instances) adopts(ctx context.Context, i store.Instance) (bool, error) {
	if engine.ParametersOf(i).Undelete == "" || i.State == store.Ready {
		return false, nil
	}
	_, err := is.Store.Retained.Adopted(ctx, i.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
