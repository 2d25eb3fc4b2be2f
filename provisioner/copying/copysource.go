package copying

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// sourceLocation is where the source is.
const sourceLocation task.Key[store.Location] = "source"

// onceRestored returns a Do function that waits while the source is being restored, before it has a turn or an account.
func (f Filling) onceRestored(do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) error {
		switch doing, err := f.replacing(ctx, f.Parameters.CloneFrom); {
		case err != nil:
			return err
		case doing == store.Deprovision:
			return sourceGone(run, errors.New("it is being deleted"))
		case doing != "":
			return task.Queued(5*time.Second, "Waiting until the service instance to copy is restored")
		}
		return do(ctx, run)
	}
}

// copy copies the source's database. It sets the events that are to run once the database is filled.
func (f Filling) copy(ctx context.Context, run *task.Run, of plan.Plan, owner mysqladmin.Account,
	events *transfer.Events) error {
	source, err := f.Store.Instances.Get(ctx, f.Parameters.CloneFrom)
	if errors.Is(err, store.ErrNotFound) || err == nil && source.State != store.Ready {
		return sourceGone(run, err)
	}
	if err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	if err := sourceLocation.Save(ctx, run, source.Location); err != nil {
		return err
	}
	reader := mysqladmin.Account{Name: f.reader(), Password: engine.NewPassword(), Database: source.Database,
		Role: plan.ReadOnly, LockTables: true}
	err = f.RecordAccount(ctx, run, source.ID, reader)
	if errors.Is(err, store.ErrNotFound) {
		return sourceGone(run, err)
	}
	if err != nil {
		return err
	}
	err = f.inSourceSession(ctx, run, source, func(ctx context.Context, s *mysqladmin.Session) error {
		return CreateAnew(ctx, s, reader)
	})
	if err != nil {
		return f.sourceFailed(ctx, run, source, err)
	}
	err = f.ReadFrom(ctx, source, func(ctx context.Context, admin *mysqladmin.Server) error {
		return f.copyFrom(ctx, run, admin, source, reader, of, owner, events)
	})
	if errors.Is(err, transfer.ErrChanged) && ctx.Err() == nil && f.gone(ctx, source) {
		return sourceGone(run, err)
	}
	return Failed(ctx, run, err, func(err error) error { return f.sourceFailed(ctx, run, source, err) }, nil)
}

// Failed says what follows from the error of a copy, a backup or a restore. ofSource explains an error of what is read,
// and ofTarget, which may be nil, one of what is written.
func Failed(ctx context.Context, run *task.Run, err error, ofSource, ofTarget func(error) error) error {
	refusal, isRefused := errors.AsType[*transfer.RefusedError](err)
	_, isOfSource := errors.AsType[*transfer.SourceError](err)
	switch {
	case err == nil || ctx.Err() != nil || run.Alive() != nil:
		return err
	case isRefused:
		return engine.Fail(run.Task, engine.Refused, err, refusal.Sentence)
	case errors.Is(err, transfer.ErrChanged):
		return engine.Fail(run.Task, engine.TablesChanged, err)
	case errors.Is(err, transfer.ErrLocked):
		return AwaitLocks(run, engine.TablesLocked, err)
	case isOfSource:
		return ofSource(err)
	case ofTarget != nil:
		return ofTarget(err)
	}
	return err
}

// ReadFrom runs fn on the server of an instance whose data is read. If that server hangs, fn's context ends, and the
// error is a transfer.SourceError.
func (c *Copier) ReadFrom(ctx context.Context, i store.Instance,
	fn func(context.Context, *mysqladmin.Server) error) error {
	return c.Fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) error {
		attended, stop := admin.Attend(ctx)
		defer stop()
		err := fn(attended, admin)
		if err != nil && context.Cause(attended) == mysqladmin.ErrSilent {
			err = &transfer.SourceError{Err: fmt.Errorf("%w: %w", mysqladmin.ErrSilent, err)}
		}
		return notDenied(err)
	})
}

// Read calls fn with the database of an instance, whose rows an account reads, and with what is known of it: the events
// that another node of its cluster runs, and the objects at which its server ended.
func (c *Copier) Read(ctx context.Context, i store.Instance, admin *mysqladmin.Server, reader mysqladmin.Account,
	fn func(transfer.Source) error) error {
	rows, err := admin.OpenDatabase(i.Database, &mysqladmin.Login{User: reader.Name, Password: reader.Password})
	if err != nil {
		return err
	}
	defer rows.Close()
	programs, err := admin.OpenDatabase(i.Database, nil)
	if err != nil {
		return err
	}
	defer programs.Close()
	running, unknown, err := admin.RunningEvents(ctx, i.Database)
	if err != nil {
		return &transfer.SourceError{Err: err}
	}
	if len(unknown) > 0 {
		c.Log.Warn("a node of the cluster cannot be reached; events are copied disabled, which may run there",
			"instance_id", i.ID, "names", unknown)
	}
	flavour, uptime, err := admin.Uptime(ctx)
	if err != nil {
		return &transfer.SourceError{Err: err}
	}
	from := transfer.Source{Rows: rows, Programs: programs, Database: i.Database, Running: running}
	if from.Fatal, err = c.Store.FatalObjects.List(ctx, i.ID, flavour.Version, uptime); err != nil {
		return fmt.Errorf("read at what objects the server ended: %w", err)
	}
	err = fn(from)
	if lost, ok := errors.AsType[*transfer.LostError](err); ok {
		return errors.Join(err, c.Store.FatalObjects.Record(ctx, i.ID, flavour.Version, lost.Object, lost.For))
	}
	if err == nil {
		err = c.Store.FatalObjects.Forget(ctx, i.ID)
	}
	return err
}

const (
	// lockedTime limits how long a task waits for a transaction of an application.
	lockedTime = 15 * time.Minute
	// lockedSince is when the task first found the tables locked.
	lockedSince task.Key[time.Time] = "locked since"
)

// AwaitLocks makes a task wait until no transaction locks the tables that it has to read.
func AwaitLocks(run *task.Run, locked engine.Failure, err error) error {
	since, remembering := task.Since(run, lockedSince)
	if remembering != nil {
		return remembering
	}
	if since > lockedTime {
		locked = engine.LockedTooLong
	}
	return engine.Fail(run.Task, locked, err)
}

// OnceLocked returns a transfer.Options.Locked that calls fn, unless that is nil. Another transaction that locks the
// tables later has its own time.
func OnceLocked(run *task.Run, fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		lockedSince.Forget(run)
		if fn == nil {
			return nil
		}
		return fn(ctx)
	}
}

func (f Filling) copyFrom(ctx context.Context, run *task.Run, admin *mysqladmin.Server, source store.Instance,
	reader mysqladmin.Account, of plan.Plan, owner mysqladmin.Account, events *transfer.Events) error {
	doing := "Copying"
	if f.moves && !f.rowsOnly {
		doing = "Comparing"
	}
	o := f.OptionsFor(ctx, run, of, "copied", func(done, total uint64) string {
		return fmt.Sprintf("%s the data: %d of %d MiB (%d %%)", doing, done>>20, total>>20, done*100/max(total, 1))
	})
	o.RowsOnly, o.Later = f.rowsOnly, events
	o.Gentle, o.Known = f.moves && f.rowsOnly, f.known // applications write meanwhile
	o.Locked = OnceLocked(run, nil)
	o.Progress = f.turns.record(run.Task.ID, o.Progress)
	defer f.turns.forget(run.Task.ID)
	return f.AsOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
		flavour, err := admin.Flavour(ctx)
		if err == nil {
			err = f.CanHold(ctx, flavour, fmt.Sprintf("what a %s server has", flavour))
		}
		if err != nil {
			return err
		}
		return f.Read(ctx, source, admin, reader, func(from transfer.Source) error {
			if f.moves { // which keeps everything, or nothing
				return transfer.Copy(ctx, from, to, o)
			}
			return LeavingOutBroken(run, "", func(leftOut func(string, bool, error) bool) error {
				o.LeftOut = leftOut
				return transfer.Copy(ctx, from, to, o)
			})
		})
	})
}

// CanHold returns an error unless the instance's server can hold data that one of that flavour has written. what names
// the data to users.
func (f Filling) CanHold(ctx context.Context, from mysqladmin.Flavour, what string) error {
	return f.Fleet.AsAdmin(ctx, f.Instance, func(admin *mysqladmin.Server) error {
		to, err := admin.Flavour(ctx)
		if err == nil && !to.CanTake(from) {
			err = &transfer.RefusedError{Sentence: fmt.Sprintf("The server of the new service instance is %s, and cannot take "+
				"%s. %s", to, what, steps.OtherServer)}
		}
		return err
	})
}

// inSourceSession runs fn in a session on the source's server. Unlike InSession, it never returns a task.Unreachable,
// which is for the task's own server.
func (f Filling) inSourceSession(ctx context.Context, run *task.Run, source store.Instance,
	fn func(context.Context, *mysqladmin.Session) error) error {
	session, err := f.Fleet.OpenSession(ctx, source, fleet.Lock{Key: fleet.BindingLock(source.ID, f.reader()),
		Alive: run.Alive})
	if err != nil {
		return err
	}
	err = session.Explain(fn(session.Context(), session.Session))
	f.CloseSession(source, session)
	return err
}

// sourceFailed explains a failure of the source to users: it may have been deleted meanwhile.
func (f Filling) sourceFailed(ctx context.Context, run *task.Run, source store.Instance, err error) error {
	switch {
	case f.gone(ctx, source):
		return sourceGone(run, err)
	case mysqladmin.NoDatabase(err) && f.moves:
		return engine.Fail(run.Task, engine.DatabaseDropped, err)
	case mysqladmin.NoDatabase(err):
		return engine.Fail(run.Task, engine.SourceDropped, err)
	case f.moves:
		return engine.Fail(run.Task, engine.MovedSourceSilent, err)
	}
	return engine.Fail(run.Task, engine.SourceSilent, err)
}

// gone reports whether the source was deleted meanwhile.
func (f Filling) gone(ctx context.Context, source store.Instance) bool {
	there, reading := f.Store.Instances.Get(ctx, source.ID)
	doing, _ := f.replacing(ctx, source.ID)
	return errors.Is(reading, store.ErrNotFound) || reading == nil && there.State != store.Ready ||
		doing == store.Deprovision
}

func sourceGone(run *task.Run, err error) error {
	return engine.Fail(run.Task, engine.SourceGone, errors.Join(errors.New("the source is gone"), err))
}

const (
	// sourceFailover is how long a source's server may take to answer again, for example because its primary has died.
	sourceFailover = 20 * time.Second
	// sourceAway is since when that server has not answered.
	sourceAway task.Key[time.Time] = "source away since"
)

// DropReader drops the account that reads the source, if there is one. If the source's server does not answer for
// longer than a failover takes, the account stays recorded, and is dropped with the source: nobody knows its password.
func (f Filling) DropReader(ctx context.Context, run *task.Run) error {
	if f.Parameters.CloneFrom == "" {
		return nil
	}
	source, err := f.Store.Instances.Get(ctx, f.Parameters.CloneFrom)
	if errors.Is(err, store.ErrNotFound) {
		source = store.Instance{ID: f.Parameters.CloneFrom}
		at, found, recalling := sourceLocation.Recall(run)
		source.Location = at
		if recalling != nil || !found || source.Location.Dedicated() { // a dedicated server went with its instance
			return recalling
		}
	} else if err != nil {
		return fmt.Errorf("read the source: %w", err)
	} else if of, err := f.Store.Instances.Find(ctx, f.reader()); errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil || of != source.ID {
		return errors.Join(err, errors.New("the account that reads is recorded with another instance"))
	}
	drop := func(ctx context.Context, s *mysqladmin.Session) error { return s.Accounts.Drop(ctx, f.reader()) }
	err = f.inSourceSession(ctx, run, source, drop)
	if err == nil && source.Former() { // it may have been moved while it was read
		err = f.inSourceSession(ctx, run, source.Elsewhere(), drop)
		if errors.Is(err, launcher.ErrNotFound) { // with the account
			err = nil
		}
	}
	if mysqladmin.CannotReach(err) && ctx.Err() == nil && run.Alive() == nil {
		return f.awaitSource(run, source, err)
	}
	sourceAway.Forget(run)
	if err != nil {
		return err
	}
	return f.Store.CopyAccounts.Forget(ctx, engine.LeaseOf(run.Task), f.reader())
}

// awaitSource waits until a source's server answers, for as long as a failover takes.
func (f Filling) awaitSource(run *task.Run, source store.Instance, err error) error {
	away, remembering := task.Since(run, sourceAway)
	if remembering != nil {
		return remembering
	}
	if away > sourceFailover {
		f.Log.Warn("an account that read an instance for a copy is left on its server, which does not answer; it is "+
			"dropped with the instance", "instance_id", source.ID, "name", f.reader(), "error", err)
		return nil
	}
	return engine.Fail(run.Task, engine.SourceAway, nil)
}
