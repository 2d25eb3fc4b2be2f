package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// owner is the account that creates everything, and becomes the definer. Each restore has its own: programs of an
// earlier one must not write while this one may.
func (w restoring) owner() string { return copying.CopyAccount(w.instance, "restoring owner "+w.id) }

func (w restoring) filling() copying.Filling {
	return copying.Filling{Copier: w.copier, Instance: w.instance, Lock: steps.InstanceLock(w.instance.ID)}
}

// check reads the whole backup before anything is changed, and looks whether the server can take it.
func (w restoring) check(ctx context.Context, run *task.Run) error {
	m, err := w.manifest(ctx, run, w.from)
	if err != nil {
		return err
	}
	from := mysqladmin.Flavour{Name: m.Flavour, Version: m.Version}
	if !w.lost {
		err = w.Fleet.AsAdmin(ctx, w.instance, func(admin *mysqladmin.Server) error {
			to, err := admin.Flavour(ctx)
			if err != nil {
				return err
			}
			if !to.CanTake(from) {
				return engine.Fail(run.Task, engine.BackupUnfit, errors.New("another flavour, or an older version"), to, from,
					steps.ByDump)
			}
			return w.notLost(ctx, run, admin)
		})
		if err != nil {
			return err
		}
	}
	err = w.vault.Check(ctx, m, w.copier.Options(ctx, run, "checked", engine.Percent("Reading the backup")))
	if err == nil || ctx.Err() != nil || run.Alive() != nil {
		return err
	}
	return w.explainBackup(ctx, run, m.ID, err)
}

// notLost refuses to restore what the server has lost, with the accounts of the bindings. If only the database is gone,
// somebody has dropped it.
func (w restoring) notLost(ctx context.Context, run *task.Run, admin *mysqladmin.Server) error {
	there, err := admin.DatabaseExists(ctx, w.instance.Database)
	if err != nil || there {
		return err
	}
	names, err := admin.Accounts(ctx)
	if err != nil {
		return err
	}
	users, err := w.users(ctx)
	if err != nil {
		return err
	}
	for _, a := range users {
		if a.BindingID != "" && !slices.Contains(names, a.Account) {
			return engine.Fail(run.Task, engine.DatabaseLost, fmt.Errorf("no database %s and no account %s",
				w.instance.Database, a.Account))
		}
	}
	return nil
}

// makeAgain returns the steps that create the server and the database again.
func (w restoring) makeAgain() (all []task.Step) {
	if w.instance.Location.Dedicated() {
		all = append(all, w.Launch(w.instance))
	}
	return append(all, task.Step{Name: "freeze left", Progress: "Waiting for the last writes",
		Timeout: steps.AccountsTimeout, Do: w.freezeLeft}, task.Step{Name: "create database",
		Progress: "Creating the database",
		Do:       w.InSession(w.instance, steps.InstanceLock(w.instance.ID), w.makeDatabase)})
}

// freezeLeft takes the privileges to write from those accounts of the bindings that the server has not lost: they would
// write into the database while it is filled. They get them back with the other accounts.
func (w restoring) freezeLeft(ctx context.Context, run *task.Run) error {
	if found, _, err := foundLost.Recall(run); err != nil || found {
		return err
	}
	var names []string
	err := w.Fleet.AsAdmin(ctx, w.instance, func(admin *mysqladmin.Server) (err error) {
		holds, err := admin.HoldsData(ctx, w.instance.Database)
		if err == nil && holds {
			err = w.errNotLost(run.Task)
		}
		if err == nil {
			names, err = admin.Accounts(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	users, err := w.users(ctx)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(users, func(a store.BindingAccount) bool {
		return a.BindingID == "" || !slices.Contains(names, a.Account)
	})
	return w.copier.FreezeAccounts(ctx, run, w.instance, left)
}

func (w restoring) errNotLost(t store.Task) error {
	return engine.Fail(t, engine.DatabaseNotLost, fmt.Errorf("database %s: %w", w.instance.Database,
		mysqladmin.ErrHoldsData))
}

// createAccounts creates the accounts of the bindings again.
func (w restoring) createAccounts(ctx context.Context, run *task.Run) error {
	accounts, err := w.users(ctx)
	if err != nil {
		return err
	}
	i := w.instance
	i.FrozenSince = nil // the data is that of the backup
	return w.copier.CreateAccounts(ctx, run, i, accounts)
}

// makeDatabase creates the lost database. Nothing backs up what is there, so it fails if the database holds data which
// are not of this task.
func (w restoring) makeDatabase(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
	if found, _, err := foundLost.Recall(run); err != nil {
		return err
	} else if !found {
		holds, err := s.Databases.HoldsData(ctx, w.instance.Database)
		if err != nil {
			return err
		}
		if holds {
			return w.errNotLost(run.Task)
		}
		if err := foundLost.Save(ctx, run, true); err != nil {
			return err
		}
	}
	if err := s.Databases.MarkMixture(ctx, w.instance.Database, w.from); err != nil { // it is empty at first
		return err
	}
	return s.Databases.Create(ctx, w.instance.Database, "", "")
}

// dropIncomplete drops the database that the task has made in place of the lost one, so that the restore can be
// repeated.
func (w restoring) dropIncomplete(ctx context.Context, run *task.Run) error {
	if found, _, err := foundLost.Recall(run); err != nil || !found {
		return err
	}
	return w.dropRestored(ctx, run)
}

// dropRestored drops the database, which only the task has filled.
func (w restoring) dropRestored(ctx context.Context, run *task.Run) error {
	return w.underLock(ctx, run, func(ctx context.Context, s *mysqladmin.Session) error {
		if err := s.Accounts.Lock(ctx, w.owner()); err != nil { // ends its sessions
			return err
		}
		return s.Databases.Drop(ctx, w.instance.Database)
	})
}

// writers lists the accounts that may write before the task does, also as definers.
func (w restoring) writers(ctx context.Context) ([]store.BindingAccount, error) {
	accounts, err := w.Store.Bindings.Accounts(ctx, w.instance.ID)
	if err != nil {
		return nil, fmt.Errorf("list the accounts: %w", err)
	}
	return copying.Without(accounts, w.reader()), nil
}

// users lists the accounts of the instance, without those of this task.
func (w restoring) users(ctx context.Context) ([]store.BindingAccount, error) {
	accounts, err := w.writers(ctx)
	return copying.Without(accounts, w.owner()), err
}

// freeze takes the privileges to write from all accounts of the instance.
func (w restoring) freeze(ctx context.Context, run *task.Run) error {
	if err := accountsFrozen.Save(ctx, run, true); err != nil {
		return err
	}
	accounts, err := w.writers(ctx)
	if err != nil {
		return err
	}
	if err := w.copier.FreezeAccounts(ctx, run, w.instance, accounts); err != nil {
		return err
	}
	return w.liftReadOnly(ctx, run)
}

// liftReadOnly lets the broker write to a database that a tenant has made read-only. The backup's data is writable.
func (w restoring) liftReadOnly(ctx context.Context, run *task.Run) error {
	is, err := w.copier.IsReadOnly(ctx, w.instance)
	if err != nil || !is {
		return err
	}
	if err := wasReadOnly.Save(ctx, run, true); err != nil {
		return err
	}
	return w.copier.SetReadOnly(ctx, run, w.instance, false)
}

// write backs up the present data. If somebody has dropped the database, there are none.
func (w restoring) write(ctx context.Context, run *task.Run) error {
	var there bool
	err := w.Fleet.AsAdmin(ctx, w.instance, func(admin *mysqladmin.Server) (err error) {
		there, err = admin.DatabaseExists(ctx, w.instance.Database)
		return err
	})
	if err != nil {
		return err
	}
	if there {
		return w.backingUp.write(ctx, run)
	}
	return foundDropped.Remember(run, true)
}

// record records that the backup of the present data is complete. From then on it stays, even if the restore fails.
func (w restoring) record(ctx context.Context, run *task.Run) error {
	if dropped, _, err := foundDropped.Recall(run); err != nil {
		return err
	} else if dropped {
		return w.deleteIncomplete(ctx, run)
	}
	written, found, err := summary.Recall(run)
	if err != nil || !found {
		return errors.Join(err, errors.New("the facts of the backup are lost"))
	}
	at, marked, err := markKey.Recall(run)
	if err != nil {
		return err
	}
	var mark *store.BackupPosition
	if marked {
		mark = &at
	}
	return w.Store.Backups.RecordWritten(ctx, engine.LeaseOf(run.Task), written, mark)
}

// For how long putBack retries: after failures that may pass by themselves, and after others. An object store or a
// server can be away for hours.
const (
	putBackTime   = 24 * time.Hour
	putBackLittle = 15 * time.Minute
)

// putBack puts the earlier data back if they may have changed, unless they are being dropped. It is retried for up to
// putBackTime.
func (w restoring) putBack(ctx context.Context, run *task.Run) error {
	if done, _, err := switched.Recall(run); err != nil || done {
		return err
	}
	changed, _, err := dataChanged.Recall(run)
	if err != nil {
		return err
	}
	if changed {
		err = w.putBackOnce(ctx, run)
	}
	if err == nil {
		return asBefore.Remember(run, true)
	}
	if ctx.Err() != nil || run.Alive() != nil {
		return err
	}
	err = fmt.Errorf("put the earlier data back: %w", err)
	failing, remembering := task.Since(run, notBackSince)
	if remembering != nil {
		return remembering
	}
	limit := putBackTime
	if lasts(err) {
		limit = putBackLittle
	}
	if failing < limit {
		return task.RequeueAfter(max(failing/8, time.Second), err)
	}
	w.Log.Error("a restore in place failed, and the earlier data could not be put back; see "+
		"docs/runbook.md#mysqlbrokerinstancesfrozen", "task", task.Token(run.Task.ID), "instance_id", w.instance.ID,
		"backup", w.id, "error", err)
	return mixed.Remember(run, true)
}

// lasts reports whether a failure to put data back will hardly pass by itself: the backup is damaged or gone, or the
// server refuses something in it.
func lasts(err error) bool {
	_, damaged := errors.AsType[*backup.DamagedError](err)
	_, refused := errors.AsType[*transfer.RefusedError](err)
	_, bySQL := errors.AsType[*mysql.MySQLError](err)
	gone := errors.Is(err, backup.ErrNotFound) || errors.Is(err, store.ErrNotFound)
	return damaged || refused || gone || bySQL && !mysqladmin.Unreachable(err) && !mysqladmin.DiskFull(err)
}

// looksBack fails unless the earlier data is back.
func looksBack(_ context.Context, run *task.Run) error {
	if done, _, err := switched.Recall(run); err != nil || done {
		return errors.Join(err, task.Abandon(errors.New("the backup was restored before the task failed")))
	}
	if found, _, err := mixed.Recall(run); err != nil || !found {
		return err
	}
	return task.Abandon(errors.New("the earlier data could not be put back"))
}

func (w restoring) putBackOnce(ctx context.Context, run *task.Run) error {
	if dropped, _, err := foundDropped.Recall(run); err != nil {
		return err
	} else if dropped {
		return w.dropRestored(ctx, run)
	}
	return w.marked(ctx, run, w.id, func() error { return w.moveBack(ctx, run) })
}

// endOwner locks the owner, or drops it if it defines nothing.
func (w restoring) endOwner(ctx context.Context, run *task.Run) error {
	of, err := w.Store.Instances.Find(ctx, w.owner())
	if errors.Is(err, store.ErrNotFound) { // it was not created
		return nil
	}
	if err != nil || of != w.instance.ID {
		return errors.Join(err, errors.New("the owner is recorded with another instance"))
	}
	return w.underLock(ctx, run, func(ctx context.Context, s *mysqladmin.Session) error {
		return w.copier.EndCopyAccount(ctx, run, s, w.instance, w.owner())
	})
}

// endDefiners ends the owner, and drops the accounts that were kept only because they had defined something.
func (w restoring) endDefiners(ctx context.Context, run *task.Run) error {
	if err := w.endOwner(ctx, run); err != nil {
		return err
	}
	accounts, err := w.users(ctx)
	if err != nil {
		return err
	}
	return w.underLock(ctx, run, func(ctx context.Context, s *mysqladmin.Session) error {
		for _, a := range accounts {
			// A copy may read with it, and it cannot define anything.
			if a.BindingID != "" || steps.RoleOf(a) == plan.ReadOnly {
				continue
			}
			if err := w.copier.EndCopyAccount(ctx, run, s, w.instance, a.Account); err != nil {
				return err
			}
		}
		return nil
	})
}

// thaw lets applications write again. An instance that was over its quota may be below it now.
func (w restoring) thaw(ctx context.Context, run *task.Run) error {
	current, err := w.Store.Instances.Get(ctx, w.instance.ID)
	if err != nil {
		return fmt.Errorf("read the instance: %w", err)
	}
	restricted := current.OverSince != nil
	if restricted {
		size, err := w.DatabaseSize(ctx, w.instance)
		if err != nil {
			return err
		}
		quota := w.Plans.Get(w.instance.PlanID).Quota()
		restricted = size.Used(quota)*100 >= quota*plan.RestoreBelow
		if err := belowQuota.Remember(run, !restricted); err != nil {
			return err
		}
	}
	accounts, err := w.users(ctx)
	if err != nil {
		return err
	}
	return w.copier.ThawAccounts(ctx, run, w.instance, accounts, restricted)
}

// thawAsBefore lets applications write as before the restore, unless the data is a mixture.
func (w restoring) thawAsBefore(ctx context.Context, run *task.Run) error {
	if found, _, err := accountsFrozen.Recall(run); err != nil || !found {
		return err
	}
	if found, _, err := mixed.Recall(run); err != nil || found {
		return err
	}
	current, err := w.Store.Instances.Get(ctx, w.instance.ID)
	if err != nil {
		return fmt.Errorf("read the instance: %w", err)
	}
	if current.FrozenSince != nil { // since an earlier restore
		return nil
	}
	accounts, err := w.writers(ctx)
	if err != nil {
		return err
	}
	readOnly, _, err := wasReadOnly.Recall(run)
	if err == nil && readOnly {
		err = w.copier.SetReadOnly(ctx, run, w.instance, true)
	}
	if err != nil {
		return err
	}
	return w.copier.ThawAccounts(ctx, run, w.instance, accounts, current.OverSince != nil)
}

// deleteIncomplete deletes the backup of the earlier data unless it is complete.
func (w restoring) deleteIncomplete(ctx context.Context, run *task.Run) error {
	b, err := w.Store.Backups.Get(ctx, w.id)
	if errors.Is(err, store.ErrNotFound) || err == nil && b.State != store.BackupInProgress {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the record of the backup: %w", err)
	}
	return w.deleteUnfinished(ctx, run)
}

// First are the steps of an operation that backs an instance up before it changes anything, and those that undo them.
// The operation has recorded the backup.
func (bs *Backups) First(i store.Instance, id string) (first, cleanup []task.Step) {
	w := restoring{backingUp: backingUp{Backups: bs, instance: i, id: id}}
	dropReader, deleteIncomplete := w.endSteps()
	return []task.Step{
			{Name: "write", Progress: "Writing the backup", Timeout: backupTimeout, Do: bs.copier.InTurn(w.write)},
			dropReader,
			{Name: "record", Progress: "Recording the backup", Do: w.record}},
		[]task.Step{dropReader, deleteIncomplete}
}

// endSteps are the steps after a backup of what is there was written, and after one could not be completed.
func (w restoring) endSteps() (dropReader, deleteIncomplete task.Step) {
	return task.Step{Name: "drop reader", Progress: "Dropping the account that read", Timeout: steps.AccountsTimeout,
			Do: w.dropReader},
		task.Step{Name: "delete", Progress: "Deleting the unfinished backup", Timeout: steps.AccountsTimeout,
			Do: w.deleteIncomplete}
}
