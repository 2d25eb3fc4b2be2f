package provisioner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// undelete records a new instance that gets the data of a deleted one, or returns store.ErrExists if it is recorded
// already.
func (p *Provisioner) undelete(ctx context.Context, q ProvisionRequest, i store.Instance,
	async bool) (decision, error) {
	since := time.Now()
	r, err := p.findDeleted(ctx, q)
	if err == nil {
		err = p.fitsRetained(q.Plan, r)
	}
	if err != nil {
		return decision{}, cmp.Or(p.absent(ctx, i.ID), err)
	}
	i.Location, i.Database = r.Location, r.Database
	i.AdminPassword, i.NextAdminPassword = r.AdminPassword, r.NextAdminPassword
	asked := request{Async: async}
	t, err := p.store.RecordUndelete(ctx, store.Asked{At: since, Absent: q.reportedAbsent}, i, p.newTask(ctx,
		store.NewTask{InstanceID: i.ID, Kind: store.Provision, PlanID: i.PlanID, Request: asked.json()}), r.ID,
		p.within(q.Plan))
	if errors.Is(err, store.ErrTaken) {
		return decision{}, cmp.Or(p.absent(ctx, i.ID), errTaken)
	}
	if err != nil {
		return decision{}, fmt.Errorf("record the instance: %w", err)
	}
	w, err := p.provisionWorkflow(i, asked)
	return decision{instance: i, task: &t, workflow: w, async: async, since: since}, err
}

var errTaken = refuse(Invalid, "Another request is bringing this service instance back just now. "+
	"If that fails, delete the service instance that it was to create, and try again.")

// findDeleted finds the deleted instance that a request names. What is not there and what belongs to somebody else gets
// the same answer.
func (p *Provisioner) findDeleted(ctx context.Context, q ProvisionRequest) (store.Retained, error) {
	name := q.Parameters.Undelete
	found, err := p.store.FindRetained(ctx, q.Plan.ServiceID, name)
	if err != nil {
		return store.Retained{}, fmt.Errorf("look for the deleted instance: %w", err)
	}
	by := tenantOf(q.OrganizationGUID, q.SpaceGUID, q.Context)
	found = slices.DeleteFunc(found, func(r store.Retained) bool {
		return !by.mayUse(tenant{r.Platform, r.OrganizationGUID, r.SpaceGUID}, q.Plan, p.plans.Get(r.PlanID))
	})
	switch {
	case len(found) == 0:
		return store.Retained{}, refuse(Invalid, "There is no deleted service instance %s in this space that can come back.",
			name)
	case len(found) > 1 && found[0].InstanceID != name:
		ids := make([]string, len(found))
		for n, r := range found {
			ids[n] = r.InstanceID
		}
		return store.Retained{}, refuse(Invalid, "%d deleted service instances of this space have the name %s. "+
			"Name one of them by its GUID, the latest first: %s.", len(found), name, strings.Join(ids, ", "))
	case found[0].AdoptedBy != "" && found[0].AdoptedBy != q.InstanceID:
		return store.Retained{}, errTaken
	}
	return found[0], nil
}

// shownDeleted is how many deleted instances Deleted lists.
const shownDeleted = 50

// Deleted lists the deleted instances of an instance's tenant that can come back, the latest first.
func (p *Provisioner) Deleted(ctx context.Context, i store.Instance) ([]store.Retained, error) {
	of := tenantOf(i.OrganizationGUID, i.SpaceGUID, i.Context)
	if !of.complete() {
		return nil, nil
	}
	found, err := p.store.RetainedOf(ctx, of.platform, of.organization, of.space, shownDeleted)
	if err != nil {
		return nil, fmt.Errorf("list the deleted instances: %w", err)
	}
	return found, nil
}

// fitsRetained returns an error if an instance of that plan cannot have the retained data.
func (p *Provisioner) fitsRetained(to plan.Plan, r store.Retained) error {
	was := plan.Kind(r.Location.Kind)
	if to.Kind != was {
		return refuse(Invalid, "The deleted service instance had a %s plan, and plan %s is a %s one. "+
			"Choose a %[1]s plan.", was, to.Name, to.Kind)
	}
	if to.Kind == plan.Dedicated {
		l, err := p.fleet.Launcher(cmp.Or(to.Launcher, r.Location.Launcher))
		if err != nil || l.Name != r.Location.Launcher {
			return &Error{Code: Invalid, Err: err,
				Sentence: fmt.Sprintf("Plan %s has its servers elsewhere. "+
					"Choose the plan of the deleted service instance.", to.Name)}
		}
	}
	if r.Bytes != nil && *r.Bytes > to.Quota() && to.ID != r.PlanID {
		return refuse(Invalid, "The data of the deleted service instance take %d MiB, and plan %s allows %d MiB. "+
			"Choose a larger plan.", (*r.Bytes+1<<20-1)>>20, to.Name, to.MaxStorageMB)
	}
	return nil
}

// undeleteWorkflow gives an instance the data of a deleted one. The accounts that objects in the database name as their
// definers get their privileges back, and nobody can log in to them. If it fails, the data stay retained.
func (p *Provisioner) undeleteWorkflow(i store.Instance, r request) task.Workflow {
	w := task.Workflow{
		Durable: true,
		Succeeded: func(tx *store.Tx, m task.Memory) {
			var kept []string
			if _, err := m.Recall(keptAccounts, &kept); err != nil {
				tx.Fail(err)
			}
			tx.AdoptRetained(i.ID, kept)
			tx.SetInstanceState(i.ID, store.Ready)
		},
		Failed: provisionFailed(i, r),
	}
	look := task.Step{Name: "look for the data", Progress: "Looking for the data",
		Do: func(ctx context.Context, _ *task.Run) error { return p.databaseThere(ctx, i) }}
	revive := task.Step{Name: "revive accounts", Progress: "Bringing back views and routines", Timeout: accountsTimeout,
		Do: p.inSession(i, instanceLock(i.ID), func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
			return p.reviveAccounts(ctx, run, s, i)
		})}
	if i.Location.Shared() {
		w.Steps = []task.Step{look, revive}
		w.Cleanup = []task.Step{p.retainAgain(i)}
		return w
	}
	w.Steps = []task.Step{p.launch(i), look, revive}
	w.Cleanup = []task.Step{p.suspend(i)}
	return w
}

// databaseThere returns an error unless the server has the database: one that was lost must not come back empty.
func (p *Provisioner) databaseThere(ctx context.Context, i store.Instance) error {
	var there bool
	err := p.fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) (err error) {
		there, err = admin.DatabaseExists(ctx, i.Database)
		return err
	})
	switch {
	case mysqladmin.CannotReach(err):
		return task.Unreachable(err)
	case err == nil && !there:
		return task.Permanent("The data of the deleted service instance are not on their server any more. Ask your operator.",
			fmt.Errorf("the server %s has no database %s", i.Location.Server, i.Database))
	}
	return err
}

// reviveAccounts gives the retained accounts that are definers their privileges back, or only those to read if the data
// are frozen, and ends the others.
func (p *Provisioner) reviveAccounts(ctx context.Context, run *task.Run, s *mysqladmin.Session,
	i store.Instance) error {
	of, err := p.plan(i.PlanID)
	if err != nil {
		return err
	}
	adopted, accounts, err := p.adopted(ctx, i.ID)
	if err != nil {
		return err
	}
	kept := []string{}
	for _, a := range accounts {
		stays, err := s.RevokeAccess(ctx, a.Account, roleOf(a), i.Database)
		if err == nil && stays {
			kept = append(kept, a.Account)
			if adopted.Frozen {
				err = s.GrantFrozen(ctx, a.Account, roleOf(a), i.Database)
			} else {
				err = s.GrantRole(ctx, a.Account, roleOf(a), of.Events, i.Database)
			}
		}
		if err != nil {
			return err
		}
	}
	return run.Remember(keptAccounts, kept)
}

// adopted returns the retained data that an instance is being created from, and their accounts.
func (p *Provisioner) adopted(ctx context.Context, instanceID string) (store.Retained, []store.BindingAccount, error) {
	r, err := p.store.Adopted(ctx, instanceID)
	if err != nil {
		return r, nil, fmt.Errorf("read what instance %q is created from: %w", instanceID, err)
	}
	accounts, err := p.store.RetainedAccounts(ctx, r.ID)
	if err != nil {
		return r, nil, fmt.Errorf("list the retained accounts: %w", err)
	}
	return r, accounts, nil
}

// retainAgain is the step that undoes an undelete on a shared server.
func (p *Provisioner) retainAgain(i store.Instance) task.Step {
	return task.Step{Name: "end accounts", Progress: "Closing the accounts", Timeout: accountsTimeout,
		Do: p.inSession(i, instanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
			_, accounts, err := p.adopted(ctx, i.ID)
			for _, a := range accounts {
				if _, ending := endAccess(ctx, s, a, i.Database); ending != nil {
					return ending
				}
			}
			return err
		})}
}

// giveBackWorkflow deletes an instance that was to get retained data and is not ready. The data stay retained.
func (p *Provisioner) giveBackWorkflow(i store.Instance) task.Workflow {
	w := task.Workflow{
		Steps:     []task.Step{p.suspend(i)},
		Succeeded: func(tx *store.Tx, _ task.Memory) { tx.DeleteInstance(i.ID) },
		Failed:    func(tx *store.Tx, _ task.Memory, _ bool) { tx.SetInstanceState(i.ID, store.DeleteFailed) },
	}
	if i.Location.Shared() {
		w.Steps = []task.Step{p.retainAgain(i)}
	}
	return w
}

// adopts reports whether an instance that is not ready is being created from retained data, which it must not drop.
func (p *Provisioner) adopts(ctx context.Context, i store.Instance) (bool, error) {
	if parametersOf(i).Undelete == "" || i.State == store.Ready {
		return false, nil
	}
	_, err := p.store.Adopted(ctx, i.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// parametersOf decodes the parameters of an instance; the broker has encoded them.
func parametersOf(i store.Instance) (q plan.InstanceParameters) {
	_ = json.Unmarshal(i.Parameters, &q)
	return q
}
