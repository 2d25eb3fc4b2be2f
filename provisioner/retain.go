package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// keptAccounts is the key under which a task remembers the accounts that stay, because objects in the database run in
// their names.
const keptAccounts = "kept accounts"

// retainsFor is for how many days the data of an instance are to be kept that is being deleted now. Data are kept only
// if the instance was ready. A deletion that is asked for again does what the failed one has begun.
func (p *Provisioner) retainsFor(ctx context.Context, i store.Instance) (days int, err error) {
	switch i.State {
	case store.Ready:
		return p.planOf(i).Keeps(parametersOf(i).KeepDeletedDays), nil
	case store.DeleteFailed:
		failed, err := p.store.LatestTask(ctx, i.ID, "", store.Deprovision)
		if errors.Is(err, store.ErrNotFound) { // tasks are forgotten; keeping too much does no harm
			return p.planOf(i).Keeps(parametersOf(i).KeepDeletedDays), nil
		}
		if err != nil {
			return 0, fmt.Errorf("read the deletion that failed: %w", err)
		}
		var r request
		if err := decodeRequest(failed, &r); err != nil {
			return 0, err
		}
		return r.RetainDays, nil
	}
	return 0, nil
}

// retainWorkflow ends all access to an instance and keeps its data for some days. On a shared server, the database
// stays where it is, and the accounts that define something in it can neither log in nor run anything. A dedicated
// server is suspended; its accounts are ended once it runs again. So it can be deleted even if it does not respond.
func (p *Provisioner) retainWorkflow(i store.Instance, accounts []store.BindingAccount, days int) task.Workflow {
	of := tenantOf(i.OrganizationGUID, i.SpaceGUID, i.Context)
	r := store.Retained{ID: newName("r_"), Platform: of.platform, OrganizationGUID: of.organization, SpaceGUID: of.space}
	w := task.Workflow{
		Steps: []task.Step{p.suspend(i)},
		Succeeded: func(tx *store.Tx, m task.Memory) {
			var kept []string
			if i.Location.Dedicated() {
				for _, a := range accounts {
					kept = append(kept, a.Account)
				}
			} else if _, err := m.Recall(keptAccounts, &kept); err != nil {
				tx.Fail(err)
			}
			tx.Retain(i.ID, r, days, kept)
		},
		Failed: func(tx *store.Tx, _ task.Memory, _ bool) { tx.SetInstanceState(i.ID, store.DeleteFailed) },
	}
	if i.Location.Shared() {
		w.Steps = []task.Step{{Name: "end accounts", Progress: "Closing the accounts", Timeout: accountsTimeout,
			Do: func(ctx context.Context, run *task.Run) error {
				kept := []string{}
				for _, a := range accounts {
					err := p.inSession(i, bindingLock(i.ID, a.BindingID),
						func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
							stays, err := endAccess(ctx, s, a, i.Database)
							if stays {
								kept = append(kept, a.Account)
							}
							return err
						})(ctx, run)
					if err != nil {
						return err
					}
				}
				return run.Remember(keptAccounts, kept)
			}}}
	}
	return w
}

// endAccess ends the access of an account. One that objects in the database name as their definer stays, without any
// privilege, so that they fail too.
func endAccess(ctx context.Context, s *mysqladmin.Session, a store.BindingAccount, database string) (bool, error) {
	stays, err := s.RevokeAccess(ctx, a.Account, roleOf(a), database)
	if err != nil || !stays {
		return false, err
	}
	return true, s.StripAccount(ctx, a.Account)
}

// roleOf is the role of an account. One whose role is not known gets that of an administrator of its database, without
// which what it has defined may fail.
func roleOf(a store.BindingAccount) plan.Role {
	if a.Role == "" {
		return plan.Admin
	}
	return plan.Role(a.Role)
}

// suspend is the step that stops the dedicated server of an instance and keeps its data. A server that was lost cannot
// keep its instance from being deleted.
func (p *Provisioner) suspend(i store.Instance) task.Step {
	return task.Step{Name: "suspend", Progress: "Stopping the server", Timeout: launchTimeout,
		Do: func(ctx context.Context, run *task.Run) error {
			err := p.fleet.Suspend(ctx, i.Location)
			if errors.Is(err, launcher.ErrNotFound) {
				p.log.Warn("a server that was to be suspended is gone", "server", i.Location.Server)
				return nil
			}
			return launchError(run.Task, err, "Try again later.")
		}}
}

// PurgeRetained is the kind of the hourly task that drops expired data of deleted instances.
const PurgeRetained = "purge-retained"

var purgeRetainedKind = kind{
	Kind: task.Kind{Schedule: store.Schedule{Every: time.Hour}},
	workflow: func(_ context.Context, p *Provisioner, _ store.Task) (task.Workflow, error) {
		return task.Workflow{Steps: []task.Step{{Name: "drop retained data", Progress: "Dropping retained data",
			Timeout: dropTimeout, Do: p.purgeRetained}}}, nil
	},
}

// purgeRetained drops everything that is due by PostgreSQL's clock, even if some of it cannot be dropped. An instance
// that is being created from retained data keeps them.
func (p *Provisioner) purgeRetained(ctx context.Context, run *task.Run) error {
	due, err := p.store.Expired(ctx)
	if err != nil {
		return fmt.Errorf("list the retained data that are due: %w", err)
	}
	if err := p.sureOfAges(ctx, len(due)); err != nil {
		return err
	}
	return forEach(run, due, func(r store.Retained) error {
		err := p.store.BeginPurge(ctx, r.ID)
		if errors.Is(err, store.ErrTaken) {
			return nil
		}
		if err == nil {
			err = p.purge(ctx, run, r)
		}
		if err != nil {
			return fmt.Errorf("drop what instance %q has left: %w", r.InstanceID, err)
		}
		p.log.Info("dropped the data of a deleted instance", "instance_id", r.InstanceID, "retained", r.ID)
		return nil
	})
}

// purge drops retained data, as a deprovision would have done.
func (p *Provisioner) purge(ctx context.Context, run *task.Run, r store.Retained) error {
	i := store.Instance{ID: r.InstanceID, Location: r.Location, Database: r.Database}
	if r.Location.Dedicated() {
		if err := p.fleet.Destroy(ctx, r.Location); err != nil {
			return err
		}
		return p.store.EndPurge(ctx, r.ID)
	}
	accounts, err := p.store.RetainedAccounts(ctx, r.ID)
	if err != nil {
		return fmt.Errorf("list the retained accounts: %w", err)
	}
	err = p.inSession(i, fleet.Lock{Key: "retained " + r.ID},
		func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
			if err := s.DropDatabase(ctx, r.Database); err != nil {
				return err
			}
			for _, a := range accounts {
				if err := s.DropAccount(ctx, a.Account); err != nil {
					return err
				}
			}
			return nil
		})(ctx, run)
	if err != nil {
		return err
	}
	return p.store.EndPurge(ctx, r.ID)
}
