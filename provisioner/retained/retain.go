package retained

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// KeptAccounts are the accounts that stay, because objects in the database run in their names.
const KeptAccounts task.Key[[]string] = "kept accounts"

// gone says that the database was not there any more.
const gone task.Key[bool] = "gone"

// lookTime is how long a server may take to say whether it has a database. One that hangs does not keep an instance
// without accounts from being deleted.
const lookTime = 5 * time.Second

// RetainsFor is for how many days the data of an instance that is being deleted now is to be kept. Data is kept only
// if the instance was ready. A deletion that is asked for again does what the failed one has begun.
func (rs *Retained) RetainsFor(ctx context.Context, i store.Instance) (days int, err error) {
	switch i.State {
	case store.Ready:
		return rs.PlanOf(i).Keeps(engine.ParametersOf(i).KeepDeletedDays), nil
	case store.DeleteFailed:
		failed, err := rs.Store.Tasks.Latest(ctx, i.ID, "", store.Deprovision)
		if errors.Is(err, store.ErrNotFound) { // tasks are forgotten; keeping too much does no harm
			return rs.PlanOf(i).Keeps(engine.ParametersOf(i).KeepDeletedDays), nil
		}
		if err != nil {
			return 0, fmt.Errorf("read the deletion that failed: %w", err)
		}
		var r engine.Request
		if err := engine.DecodeRequest(failed, &r); err != nil {
			return 0, err
		}
		return r.RetainDays, nil
	}
	return 0, nil
}

// RetainWorkflow ends all access to an instance and keeps its data for some days. On a shared server, the database
// stays where it is, and the accounts that define something in it can neither log in nor run anything. A dedicated
// server is suspended; its accounts are ended once it runs again. So it can be deleted even if it does not respond.
func (rs *Retained) RetainWorkflow(i store.Instance, accounts []store.BindingAccount, days int) task.Workflow {
	of := copying.TenantOf(i.OrganizationGUID, i.SpaceGUID, i.Context)
	r := store.Retained{ID: engine.NewName("r_"), Platform: of.Platform, OrganizationGUID: of.Organization,
		SpaceGUID: of.Space}
	w := task.Workflow{
		Steps: []task.Step{rs.Suspend(i)},
		Succeeded: func(tx *store.Tx, m task.Memory) {
			kept, _, err := KeptAccounts.In(m)
			if err != nil {
				tx.Fail(err)
			}
			if i.Location.Dedicated() {
				for _, a := range accounts {
					kept = append(kept, a.Account)
				}
			}
			tx.Retain(i.ID, r, days, kept)
			if missing, _, err := gone.In(m); err == nil && missing {
				tx.SawGone(i.Location.Server, i.Database)
			}
		},
		Failed: func(tx *store.Tx, _ task.Memory, _ bool) { tx.SetInstanceState(i.ID, store.DeleteFailed) },
	}
	if i.Location.Shared() {
		w.Steps = []task.Step{{Name: "end accounts", Progress: "Closing the accounts", Timeout: steps.AccountsTimeout,
			Do: func(ctx context.Context, run *task.Run) error {
				kept := []string{}
				for _, a := range accounts {
					err := rs.InSession(i, steps.BindingLock(i.ID, a.BindingID),
						func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
							stays, err := EndAccess(ctx, s, a, i.Database)
							if stays {
								kept = append(kept, a.Account)
							}
							return err
						})(ctx, run)
					if err != nil {
						return err
					}
				}
				if err := gone.Remember(run, rs.gone(ctx, i)); err != nil {
					return err
				}
				return KeptAccounts.Remember(run, kept)
			}}}
	}
	return w
}

// gone reports whether somebody has dropped the database, so that operators need not look for it. What is kept of a
// frozen instance lies beside it, and must be looked for.
func (rs *Retained) gone(ctx context.Context, i store.Instance) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var there bool
	err := rs.Fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) (err error) {
		there, err = admin.DatabaseExists(ctx, i.Database)
		return err
	})
	return err == nil && !there && i.FrozenSince == nil
}

// EndAccess ends the access of an account. One that objects in the database name as their definer stays, without any
// privilege, so that they fail too.
func EndAccess(ctx context.Context, s *mysqladmin.Session, a store.BindingAccount, database string) (bool, error) {
	stays, err := s.Accounts.Revoke(ctx, a.Account, database)
	if err != nil || !stays {
		return false, err
	}
	return true, s.Accounts.Strip(ctx, a.Account)
}

// Suspend is the step that stops the dedicated server of an instance and keeps its data. A server that was lost cannot
// keep its instance from being deleted.
func (rs *Retained) Suspend(i store.Instance) task.Step {
	return task.Step{Name: "suspend", Progress: "Stopping the server", Timeout: steps.LaunchTimeout,
		Do: func(ctx context.Context, run *task.Run) error {
			err := rs.Fleet.Suspend(ctx, i.Location)
			if errors.Is(err, launcher.ErrNotFound) {
				rs.Log.Warn("a server that was to be suspended is gone", "server", i.Location.Server)
				return nil
			}
			return steps.LaunchError(run.Task, err, "Try again later.")
		}}
}

// PurgeRetained is the kind of the hourly task that drops expired data of deleted instances.
const PurgeRetained = "purge-retained"

var purgeRetainedKind = engine.Scheduled(time.Hour,
	task.Step{Name: "drop retained data", Progress: "Dropping retained data", Timeout: steps.DropTimeout},
	(*Retained).purgeRetained)

// purgeRetained drops everything that is due by PostgreSQL's clock, even if some of it cannot be dropped. An instance
// that is being created from retained data keeps it.
func (rs *Retained) purgeRetained(ctx context.Context, run *task.Run) error {
	due, err := rs.Store.Retained.Expired(ctx)
	if err != nil {
		return fmt.Errorf("list the retained data that is due: %w", err)
	}
	if err := rs.SureOfAges(ctx, len(due)); err != nil {
		return err
	}
	return engine.ForEach(run, due, func(r store.Retained) error {
		err := rs.Store.Retained.BeginPurge(ctx, r.ID)
		if errors.Is(err, store.ErrTaken) {
			return nil
		}
		if err == nil {
			err = rs.purge(ctx, run, r)
		}
		if err != nil {
			return fmt.Errorf("drop what instance %q has left: %w", r.InstanceID, err)
		}
		rs.Log.Info("dropped the data of a deleted instance", "instance_id", r.InstanceID, "retained", r.ID)
		return nil
	})
}

// purge drops retained data, as a deprovision would have done.
func (rs *Retained) purge(ctx context.Context, run *task.Run, r store.Retained) error {
	i := store.Instance{ID: r.InstanceID, Location: r.Location, Database: r.Database}
	if r.Location.Dedicated() {
		if err := rs.Fleet.Destroy(ctx, r.Location); err != nil {
			return err
		}
		return rs.Store.Retained.EndPurge(ctx, r.ID)
	}
	accounts, err := rs.Store.Retained.Accounts(ctx, r.ID)
	if err != nil {
		return fmt.Errorf("list the retained accounts: %w", err)
	}
	err = rs.InSession(i, fleet.Lock{Key: "retained " + r.ID},
		func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
			if err := s.Databases.Drop(ctx, r.Database); err != nil {
				return err
			}
			for _, a := range accounts {
				if err := s.Accounts.Drop(ctx, a.Account); err != nil {
					return err
				}
			}
			return nil
		})(ctx, run)
	if err != nil {
		return err
	}
	return rs.Store.Retained.EndPurge(ctx, r.ID)
}
