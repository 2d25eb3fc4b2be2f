package provisioner

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// fillTimeout bounds an attempt to fill a database.
const fillTimeout = 12 * time.Hour

// filling is the work of a provision that fills the new database: with a copy of another instance's or with a backup,
// with SQL of the request, or with one of these and SQL. The owner, an account of the new instance, creates everything
// and becomes the definer. It reaches nothing else, whatever the source or the SQL holds. Each attempt gives it another
// password, so that a worker that has lost its lease cannot log in. At the end it is locked, or dropped if it defines
// nothing.
//
// The source is read by another account, which is added to the source's instance and dropped at the end.
type filling struct {
	*Provisioner
	instance   store.Instance
	parameters plan.InstanceParameters
	backup     string // the id of the backup to restore, "" for none
	lock       sessionLock
	moves      bool // the source is the same instance, whose data are being moved
	rowsOnly   bool // programs are copied later
}

// copyAccount derives the name of an account from the new database's name, which is random and never used twice.
func copyAccount(i store.Instance, what string) string {
	sum := sha256.Sum256([]byte(what + " " + i.Database))
	return mysqladmin.AccountPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:20])
}

func (f filling) owner() string {
	if f.moves { // the source may have an owner too
		return ownerAt(f.instance)
	}
	return copyAccount(f.instance, "owner")
}

func (f filling) reader() string {
	if f.moves {
		return copyAccount(f.instance, "moving reader")
	}
	return copyAccount(f.instance, "reader")
}

func leaseOf(t store.Task) store.Lease { return store.Lease{ID: t.ID, Epoch: t.Epoch} }

// steps fill the database. Until the last one is done, the database is marked as unfinished, so that a cleanup drops
// it.
func (f filling) steps() []task.Step {
	return []task.Step{
		{Name: "fill", Progress: "Filling the database", Timeout: fillTimeout, Do: f.inTurn(f.fill)},
		{Name: "finish", Progress: "Finishing the database", Timeout: accountsTimeout, Do: f.finish},
	}
}

// cleanup drops what steps have created. A dedicated server is destroyed afterwards.
func (f filling) cleanup() []task.Step {
	steps := []task.Step{{Name: "drop reader", Progress: "Dropping the account that read", Timeout: accountsTimeout,
		Do: f.dropReader}}
	if f.instance.Location.Dedicated() {
		return steps
	}
	return append(steps, task.Step{Name: "drop database", Progress: "Dropping the database", Timeout: dropTimeout,
		Do: f.inSession(f.instance, f.lock, func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
			if err := s.LockAccount(ctx, f.owner()); err != nil {
				return err
			}
			err := s.DropUnfinished(ctx, f.instance.Database)
			if errors.Is(err, mysqladmin.ErrHoldsData) {
				return keep(run.Task, err)
			}
			if err != nil {
				return err
			}
			if err := s.DropAccount(ctx, f.owner()); err != nil {
				return err
			}
			return f.store.ForgetCopyAccount(ctx, leaseOf(run.Task), f.owner())
		})})
}

// fill fills the database. If that needs more room than there is, it gives up at once: the cleanup makes room for
// others, and a dedicated server on a full disk may hang until then.
func (f filling) fill(ctx context.Context, run *task.Run) error {
	err := f.fillNow(ctx, run)
	if _, ofSource := errors.AsType[*transfer.SourceError](err); err == nil || ofSource || ctx.Err() != nil {
		return err
	}
	full := mysqladmin.DiskFull(err)
	if !full && mysqladmin.CannotReach(err) {
		trouble, asking := f.fleet.Trouble(ctx, f.instance.Location)
		full = trouble == launcher.VolumeFull
		err = errors.Join(err, asking)
	}
	if !full {
		return err
	}
	what, next := "new service instance", "Delete the service instance, and create it again when there is room."
	if f.moves {
		what, next = "plan", "The service instance stays where it was."
	}
	return task.Permanent(fmt.Sprintf("The disk of the MySQL server for the %s is full. %s Tell your operator about %s.",
		what, next, task.Token(run.Task.ID)), notUnreachable(err))
}

// fillNow creates the accounts and runs what the request asks for.
func (f filling) fillNow(ctx context.Context, run *task.Run) error {
	lease := leaseOf(run.Task)
	err := f.store.RecordCopyAccount(ctx, lease, store.CopyAccount{InstanceID: f.instance.ID, Account: f.owner(),
		Role: string(plan.Admin)})
	if err != nil {
		return fmt.Errorf("record the owner: %w", err)
	}
	of, err := f.plan(f.instance.PlanID)
	if err != nil {
		return err
	}
	owner := mysqladmin.Account{Name: f.owner(), Password: newPassword(), Database: f.instance.Database, Role: plan.Admin,
		Events: of.Events}
	err = f.inSession(f.instance, f.lock, func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
		err := s.MarkUnfinished(ctx, f.instance.Database)
		if errors.Is(err, mysqladmin.ErrHoldsData) {
			return task.Permanent("The new database holds data from earlier.", err)
		}
		if err == nil {
			err = s.LockAccount(ctx, owner.Name) // ends the sessions of an earlier attempt
		}
		if err == nil {
			err = s.CreateAccount(ctx, owner)
		}
		return err
	})(ctx, run)
	if err != nil {
		return err
	}
	var events transfer.Events
	if f.parameters.CloneFrom != "" {
		if err := f.copy(ctx, run, of, owner, &events); err != nil {
			return err
		}
	}
	if f.parameters.RestoreFrom != "" {
		if err := f.restore(ctx, run, of, owner, &events); err != nil {
			return err
		}
	}
	return f.asOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
		// Otherwise the copy has removed what an earlier attempt left.
		if f.parameters.CloneFrom == "" && f.parameters.RestoreFrom == "" {
			if err := transfer.Empty(ctx, to, run.Alive); err != nil {
				return err
			}
		}
		if f.parameters.Bootstrap != "" {
			if err := bootstrap(ctx, to, f.parameters.Bootstrap, run.Alive); err != nil {
				return err
			}
		}
		return events.Enable(ctx, to, run.Alive)
	})
}

// asOwner runs fn with connections of the owner. fn's context ends if the server hangs.
func (f filling) asOwner(ctx context.Context, run *task.Run, owner mysqladmin.Account,
	fn func(context.Context, transfer.Target) error) error {
	err := f.fleet.AsAdmin(ctx, f.instance, func(admin *mysqladmin.Server) error {
		db, err := admin.OpenDatabase(owner.Database, &mysqladmin.Login{User: owner.Name, Password: owner.Password})
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
		return task.Unreachable(err)
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

// copy copies the source's database. It sets the events that are to run once the database is filled.
func (f filling) copy(ctx context.Context, run *task.Run, of plan.Plan, owner mysqladmin.Account,
	events *transfer.Events) error {
	source, err := f.store.Instance(ctx, f.parameters.CloneFrom)
	if errors.Is(err, store.ErrNotFound) || err == nil && source.State != store.Ready {
		return sourceGone(err)
	}
	if err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	err = errors.Join(run.Remember(sourceLocation, source.Location), run.Save(ctx))
	if err != nil {
		return err
	}
	err = f.store.RecordCopyAccount(ctx, leaseOf(run.Task), store.CopyAccount{InstanceID: source.ID, Account: f.reader(),
		Role: string(plan.ReadOnly)})
	if errors.Is(err, store.ErrNotFound) {
		return sourceGone(err)
	}
	if err != nil {
		return fmt.Errorf("record the account that reads: %w", err)
	}
	reader := mysqladmin.Account{Name: f.reader(), Password: newPassword(), Database: source.Database,
		Role: plan.ReadOnly, LockTables: true}
	err = f.inSourceSession(ctx, run, source, func(ctx context.Context, s *mysqladmin.Session) error {
		if err := s.LockAccount(ctx, reader.Name); err != nil {
			return err
		}
		return s.CreateAccount(ctx, reader)
	})
	if err != nil {
		return f.sourceFailed(ctx, source, err)
	}
	err = f.fleet.AsAdmin(ctx, source, func(admin *mysqladmin.Server) error {
		attended, stop := admin.Attend(ctx)
		defer stop()
		err := f.copyFrom(attended, run, admin, source, reader, of, owner, events)
		if err != nil && context.Cause(attended) == mysqladmin.ErrSilent {
			err = &transfer.SourceError{Err: fmt.Errorf("%w: %w", mysqladmin.ErrSilent, err)}
		}
		return notDenied(err)
	})
	refusal, isRefused := errors.AsType[*transfer.RefusedError](err)
	_, ofSource := errors.AsType[*transfer.SourceError](err)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case isRefused:
		return task.Permanent(refusal.Sentence, err)
	case errors.Is(err, transfer.ErrChanged):
		return f.sourceFailed(ctx, source, task.Failure("The tables of the service instance to copy were changed meanwhile.",
			err))
	case errors.Is(err, transfer.ErrLocked):
		return awaitLocks(run, err)
	case ofSource:
		return f.sourceFailed(ctx, source, err)
	}
	return err
}

const (
	// lockedTime limits how long a task waits for a transaction of an application. Between two attempts to lock the
	// tables, others may write for lockedPause.
	lockedTime  = 15 * time.Minute
	lockedPause = 5 * time.Second
	// lockedSince is the key under which the task remembers when it first found the tables locked.
	lockedSince = "locked since"
)

// awaitLocks makes a task wait until no transaction locks the tables that it has to read.
func awaitLocks(run *task.Run, err error) error {
	since := time.Now()
	found, recalling := run.Recall(lockedSince, &since)
	switch {
	case recalling != nil:
		return recalling
	case time.Since(since) > lockedTime:
		return task.Permanent("Transactions have kept tables of the service instance locked for too long. Commit them, and "+
			"try again.", err)
	case !found:
		if remembering := run.Remember(lockedSince, since); remembering != nil {
			return remembering
		}
	}
	return task.Pending(lockedPause, "Waiting for a transaction that keeps a table locked")
}

// sourceLocation is the key under which the task remembers where the source is.
const sourceLocation = "source"

func (f filling) copyFrom(ctx context.Context, run *task.Run, admin *mysqladmin.Server, source store.Instance,
	reader mysqladmin.Account, of plan.Plan, owner mysqladmin.Account, events *transfer.Events) error {
	rows, err := admin.OpenDatabase(source.Database, &mysqladmin.Login{User: reader.Name, Password: reader.Password})
	if err != nil {
		return err
	}
	defer rows.Close()
	programs, err := admin.OpenDatabase(source.Database, nil)
	if err != nil {
		return err
	}
	defer programs.Close()
	doing := "Copying"
	if f.moves && !f.rowsOnly {
		doing = "Comparing"
	}
	o := transfer.Options{Events: of.Events, Lossy: f.parameters.AllowLossy, RowsOnly: f.rowsOnly, Later: events,
		Gentle:   f.moves && f.rowsOnly, // applications write meanwhile
		Alive:    run.Alive,
		MaxBytes: 4*of.Quota() + 64<<20,
		Progress: f.copies.note(run.Task.ID, f.reportProgress(ctx, run, "copied", func(done, total uint64) string {
			return fmt.Sprintf("%s the data: %d of %d MiB (%d %%)", doing, done>>20, total>>20, done*100/max(total, 1))
		}))}
	defer f.copies.forget(run.Task.ID)
	return f.asOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
		from, err := admin.Flavour(ctx)
		if err == nil {
			o.Into, err = f.canHold(ctx, from, fmt.Sprintf("what a %s server has", from))
		}
		if err != nil {
			return err
		}
		return transfer.Copy(ctx, transfer.Source{Rows: rows, Programs: programs, Database: source.Database}, to, o)
	})
}

// canHold returns an error unless the instance's server can hold data that one of that flavour has written. what names
// the data to users. If it is of the other flavour, into is its name; only a copy of an instance is translated.
func (f filling) canHold(ctx context.Context, from mysqladmin.Flavour, what string) (into string, err error) {
	err = f.fleet.AsAdmin(ctx, f.instance, func(admin *mysqladmin.Server) error {
		to, err := admin.Flavour(ctx)
		if err == nil && to.Name != from.Name && f.parameters.CloneFrom != "" && !f.moves {
			into = to.Name
			return nil
		}
		if err == nil && !to.CanTake(from) {
			err = &transfer.RefusedError{Sentence: fmt.Sprintf("The server of the new service instance is %s, and cannot take "+
				"%s. Choose another plan.", to, what)}
		}
		return err
	})
	return into, err
}

// inSourceSession runs fn in a session on the source's server. Its failure is not one of the task's own server.
func (f filling) inSourceSession(ctx context.Context, run *task.Run, source store.Instance,
	fn func(context.Context, *mysqladmin.Session) error) error {
	session, err := f.fleet.OpenSession(ctx, source, fleet.Lock{Key: fleet.BindingLock(source.ID, f.reader()),
		Alive: run.Alive})
	if err != nil {
		return err
	}
	err = session.Explain(fn(session.Context(), session.Session))
	f.closeSession(source, session)
	return err
}

// sourceFailed explains a failure of the source to users: it may have been deleted meanwhile.
func (f filling) sourceFailed(ctx context.Context, source store.Instance, err error) error {
	there, reading := f.store.Instance(ctx, source.ID)
	latest, readingTask := f.store.LatestTask(ctx, source.ID, "", store.Deprovision)
	switch {
	case errors.Is(reading, store.ErrNotFound), reading == nil && there.State != store.Ready,
		readingTask == nil && latest.State == store.InProgress:
		return sourceGone(err)
	case errors.Is(err, transfer.ErrChanged):
		return err
	}
	return task.Failure("The MySQL server of the service instance to copy did not answer, or refused.",
		notUnreachable(err))
}

func sourceGone(err error) error {
	return task.Permanent("The service instance to copy was deleted, or is not ready. Delete this one.",
		errors.Join(errors.New("the source is gone"), err))
}

// finish ends the access of both accounts, and says that the database is complete.
func (f filling) finish(ctx context.Context, run *task.Run) error {
	if err := f.dropReader(ctx, run); err != nil {
		return err
	}
	return f.inSession(f.instance, f.lock, func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
		kept, err := s.RevokeAccess(ctx, f.owner(), plan.Admin, f.instance.Database)
		if err == nil && !kept {
			err = f.store.ForgetCopyAccount(ctx, leaseOf(run.Task), f.owner())
		}
		if err != nil {
			return err
		}
		return s.MarkFinished(ctx, f.instance.Database)
	})(ctx, run)
}

// dropReader drops the account that reads the source, if there is one. If the source's server does not answer, the
// account stays recorded, and is dropped with the source: nobody knows its password.
func (f filling) dropReader(ctx context.Context, run *task.Run) error {
	if f.parameters.CloneFrom == "" {
		return nil
	}
	source, err := f.store.Instance(ctx, f.parameters.CloneFrom)
	if errors.Is(err, store.ErrNotFound) {
		source = store.Instance{ID: f.parameters.CloneFrom}
		found, recalling := run.Recall(sourceLocation, &source.Location)
		if recalling != nil || !found || source.Location.Dedicated() { // a dedicated server went with its instance
			return recalling
		}
	} else if err != nil {
		return fmt.Errorf("read the source: %w", err)
	} else if of, err := f.store.FindInstance(ctx, f.reader()); errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil || of != source.ID {
		return errors.Join(err, errors.New("the account that reads is recorded with another instance"))
	}
	drop := func(ctx context.Context, s *mysqladmin.Session) error { return s.DropAccount(ctx, f.reader()) }
	err = f.inSourceSession(ctx, run, source, drop)
	if err == nil && source.Former() { // it may have been moved while it was read
		err = f.inSourceSession(ctx, run, source.Elsewhere(), drop)
		if errors.Is(err, launcher.ErrNotFound) { // with the account
			err = nil
		}
	}
	if mysqladmin.CannotReach(err) && ctx.Err() == nil && run.Alive() == nil {
		f.log.Warn("the account by which an instance was copied is left on its server, which does not answer; it is "+
			"dropped with the instance", "instance_id", source.ID, "name", f.reader(), "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	return f.store.ForgetCopyAccount(ctx, leaseOf(run.Task), f.reader())
}
