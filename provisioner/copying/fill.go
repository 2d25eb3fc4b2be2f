package copying

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// FillTimeout limits an attempt to fill a database.
const FillTimeout = 12 * time.Hour

// Filling is the work of a provision that fills the new database: with a copy of another instance's or with a backup,
// with SQL of the request, or with one of these and SQL. The owner, an account of the new instance, creates everything
// and becomes the definer. It reaches nothing else, whatever the source or the SQL holds. Each attempt gives it another
// password, so that a worker that has lost its lease cannot log in. At the end it is locked, or dropped if it defines
// nothing.
//
// The source is read by another account, which is added to the source's instance and dropped at the end.
type Filling struct {
	*Copier
	Instance   store.Instance
	Parameters plan.InstanceParameters
	Lock       fleet.Lock
	Restore    Restore // nil unless the request names a backup
	moves      bool    // the source is the same instance, whose data is being moved
	rowsOnly   bool    // programs are copied later
	known      *transfer.Known
}

// Restore fills a database from a backup, as its owner. It sets the events that are to run once the database is filled.
type Restore func(ctx context.Context, run *task.Run, f Filling, owner mysqladmin.Account,
	events *transfer.Events) error

// Steps fill the database. Until the last one is done, the database is marked as unfinished, so that a cleanup drops
// it.
func (f Filling) Steps() []task.Step {
	fill := f.fill
	if f.Parameters.CloneFrom != "" || f.Restore != nil {
		fill = f.InTurn(fill)
	}
	if f.Parameters.CloneFrom != "" {
		fill = f.onceRestored(fill)
	}
	return []task.Step{
		{Name: "fill", Progress: "Filling the database", Timeout: FillTimeout, Do: fill},
		{Name: "finish", Progress: "Finishing the database", Timeout: steps.AccountsTimeout, Do: f.finish},
	}
}

// Cleanup drops what steps have created. A dedicated server is destroyed afterwards.
func (f Filling) Cleanup() []task.Step {
	all := []task.Step{{Name: "drop reader", Progress: "Dropping the account that read",
		Timeout: steps.AccountsTimeout,
		Do:      f.DropReader}}
	if f.Instance.Location.Dedicated() {
		return all
	}
	return append(all, task.Step{Name: "drop database", Progress: "Dropping the database", Timeout: steps.DropTimeout,
		Do: f.InSession(f.Instance, f.Lock, func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
			if err := s.Accounts.Lock(ctx, f.owner()); err != nil {
				return err
			}
			err := s.Databases.DropUnfinished(ctx, f.Instance.Database)
			if errors.Is(err, mysqladmin.ErrHoldsData) {
				return steps.Keep(run.Task, err)
			}
			if err != nil {
				return err
			}
			if err := s.Accounts.Drop(ctx, f.owner()); err != nil {
				return err
			}
			return f.Store.CopyAccounts.Forget(ctx, engine.LeaseOf(run.Task), f.owner())
		})})
}

// fill fills the database.
func (f Filling) fill(ctx context.Context, run *task.Run) error {
	return f.WithRoom(f.Instance, f.moves, f.fillNow)(ctx, run)
}

// fillNow creates the accounts and runs what the request asks for.
func (f Filling) fillNow(ctx context.Context, run *task.Run) error {
	of, err := f.Plan(f.Instance.PlanID)
	if err != nil {
		return err
	}
	owner := mysqladmin.Account{Name: f.owner(), Password: engine.NewPassword(), Database: f.Instance.Database,
		Role: plan.Admin, Events: of.Events}
	if err := f.RecordAccount(ctx, run, f.Instance.ID, owner); err != nil {
		return err
	}
	err = f.InSession(f.Instance, f.Lock, func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
		err := s.Databases.MarkUnfinished(ctx, f.Instance.Database)
		if errors.Is(err, mysqladmin.ErrHoldsData) {
			return engine.Fail(run.Task, engine.DatabaseUsed, err)
		}
		if err != nil {
			return err
		}
		return CreateAnew(ctx, s, owner)
	})(ctx, run)
	if err != nil {
		return err
	}
	var events transfer.Events
	if f.Parameters.CloneFrom != "" {
		if err := f.copy(ctx, run, of, owner, &events); err != nil {
			return err
		}
	}
	if f.Restore != nil {
		if err := f.Restore(ctx, run, f, owner, &events); err != nil {
			return err
		}
	}
	return f.AsOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
		// Otherwise the copy has removed what an earlier attempt left.
		if f.Parameters.CloneFrom == "" && f.Restore == nil {
			if err := transfer.Empty(ctx, to, run.Alive); err != nil {
				return err
			}
		}
		if f.Parameters.Bootstrap != "" {
			if err := f.bootstrap(ctx, run, owner); err != nil {
				return err
			}
		}
		return events.Enable(ctx, to, run.Alive)
	})
}

// AsOwner runs fn with connections of the owner. fn's context ends if the server hangs.
func (f Filling) AsOwner(ctx context.Context, run *task.Run, owner mysqladmin.Account,
	fn func(context.Context, transfer.Target) error) error {
	return f.asOwner(ctx, run, owner, nil, fn)
}

// asOwner is AsOwner with limited responses, unless limit is nil.
func (f Filling) asOwner(ctx context.Context, run *task.Run, owner mysqladmin.Account, limit *mysqladmin.ResponseLimit,
	fn func(context.Context, transfer.Target) error) error {
	err := f.Fleet.AsAdmin(ctx, f.Instance, func(admin *mysqladmin.Server) error {
		db, err := admin.OpenDatabase(owner.Database, &mysqladmin.Login{User: owner.Name, Password: owner.Password,
			Limit: limit})
		if err != nil {
			return err
		}
		defer db.Close()
		attended, stop := admin.Attend(ctx)
		defer stop()
		err = fn(attended, transfer.Target{DB: db, Database: owner.Database,
			Keep: mysqladmin.UnfinishedTable(owner.Database)})
		if err != nil && context.Cause(attended) == mysqladmin.ErrSilent {
			err = fmt.Errorf("%w: %w", mysqladmin.ErrSilent, err)
		}
		return notDenied(err)
	})
	if _, ofSource := errors.AsType[*transfer.SourceError](err); !ofSource && ctx.Err() == nil && run.Alive() == nil &&
		mysqladmin.CannotReach(err) {
		return engine.Fail(run.Task, engine.ServerSilent, err)
	}
	return err
}

// notDenied keeps fleet.AsAdmin from taking an account's error for a refusal of the broker's own password.
func notDenied(err error) error {
	if mysqladmin.AccessDenied(err) {
		return fmt.Errorf("as an account of the instance: %s", err.Error())
	}
	return err
}

// finish ends the access of both accounts, and says that the database is complete.
func (f Filling) finish(ctx context.Context, run *task.Run) error {
	if err := f.DropReader(ctx, run); err != nil {
		return err
	}
	return f.InSession(f.Instance, f.Lock, func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
		if err := f.EndCopyAccount(ctx, run, s, f.Instance, f.owner()); err != nil {
			return err
		}
		return s.Databases.MarkFinished(ctx, f.Instance.Database)
	})(ctx, run)
}
