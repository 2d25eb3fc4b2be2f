package backups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// Reasons of backups.
const (
	onRequest     = "request" // of a developer
	onSchedule    = "schedule"
	byOperator    = "operator"
	beforeRestore = "restore" // in place, of what it replaces
)

// backupTimeout bounds an attempt to write a backup.
const backupTimeout = 12 * time.Hour

var errNoBackups = engine.Refuse(engine.Invalid, "This broker keeps no backups. "+
	"Ask your operator to configure an object store for them.")

// BackUp begins to back up an instance for a developer. A request that is repeated meanwhile joins the first one; the
// next one after that is for another backup.
func (bs *Backups) BackUp(ctx context.Context, i store.Instance, q engine.UpdateRequest) (engine.Result, error) {
	switch {
	case q.Plan.ID != bs.PlanOf(i).ID || q.Upgrade:
		return engine.Result{}, engine.Refuse(engine.Invalid,
			"A backup is not taken together with another change. Send two requests.")
	case bs.vault == nil:
		return engine.Result{}, errNoBackups
	case !q.AcceptsIncomplete:
		return engine.Result{}, engine.ErrAsyncRequired
	}
	_, result, err := bs.Operate(ctx, store.BackUp, func(tx *store.Tx) (engine.Decision, error) {
		return bs.decideBackUp(ctx, tx, i.ID)
	})
	return result, err
}

func (bs *Backups) decideBackUp(ctx context.Context, tx *store.Tx, id string) (d engine.Decision, err error) {
	there, err := engine.BeginOn(ctx, tx, id)
	if err != nil {
		return d, err
	}
	i, active := there.Instance, there.Task("")
	d = engine.Decision{Instance: i, Async: true}
	if active != nil && active.Kind == store.BackUp {
		d.Task, d.Joined = active, true
		return d, nil
	}
	// A backup of a mixture would be taken for one of good data.
	if err := (engine.Beside{Bindings: true}).Refusal(there); err != nil {
		return d, err
	}
	n, backupID := Insert(tx, bs.Plans, i, onRequest)
	d.Task = tx.InsertTask(bs.NewTask(ctx, n))
	d.Workflow = bs.backUpWorkflow(i, backupID)
	return d, nil
}

// Insert records a backup of an instance that is to be written, and returns the task that writes it, and its id. Other
// operations that back up first have tasks of their own.
func Insert(tx *store.Tx, plans plan.Set, i store.Instance, reason string) (n store.NewTask, id string) {
	of := copying.TenantOf(i.OrganizationGUID, i.SpaceGUID, i.Context)
	b := store.Backup{ID: engine.NewName("b_"), InstanceID: i.ID, InstanceName: nameOf(i), ServiceID: i.ServiceID,
		PlanID: i.PlanID, Platform: of.Platform, OrganizationGUID: of.Organization, SpaceGUID: of.Space, Reason: reason}
	tx.InsertBackup(b, time.Duration(plans.Get(i.PlanID).BackupKeepDays())*24*time.Hour)
	return store.NewTask{InstanceID: i.ID, Kind: store.BackUp, PlanID: i.PlanID, Description: backingUpSentence,
		Request: engine.Request{Async: true, BackupID: b.ID}.JSON()}, b.ID
}

const backingUpSentence = "Backing up the service instance"

var backUpKind = engine.Kind[*Backups]{
	Beginning: backingUpSentence,
	Kind:      task.Kind{Advice: "The service instance is as it was; back it up again later.", Undoable: true},
	Workflow: engine.OfInstance(func(bs *Backups, i store.Instance, r engine.Request) task.Workflow {
		return bs.onlyWithStore(bs.backUpWorkflow(i, r.BackupID))
	}),
}

// backingUp is the work of a backup. The source is read by an account that can read nothing else, and that is dropped
// at the end.
type backingUp struct {
	*Backups
	instance store.Instance
	id       string
	patience time.Duration // how long the backup may make no progress; then, and if it fails, it is given up. 0: no limit
}

var errStalled = errors.New("the backup made no progress")

// summary has the facts of the backup that the task has written.
const summary task.Key[store.Backup] = "summary"

// onlyWithStore leaves the steps of a workflow to a broker with an object store, if this one has none. It can be
// cancelled here, too.
func (bs *Backups) onlyWithStore(w task.Workflow) task.Workflow {
	if bs.vault != nil {
		return w
	}
	for n := range w.Steps {
		w.Steps[n].Do = func(context.Context, *task.Run) error { return task.RequeueElsewhere(errNoStoreHere) }
	}
	return w
}

var errNoStoreHere = errors.New("this broker has no object store")

func (bs *Backups) backUpWorkflow(i store.Instance, id string) task.Workflow {
	first, cleanup := bs.First(i, id)
	dropScratch := bs.dropScratchStep()
	return task.Workflow{
		Steps: append(first, task.Step{Name: "verify", Progress: "Verifying the backup", Timeout: backupTimeout,
			Do: bs.copier.InTurn(backingUp{Backups: bs, instance: i, id: id}.verify)}, dropScratch),
		Cleanup: append(cleanup, dropScratch),
		Durable: true,
		Advice: fmt.Sprintf("The backup is %s. To restore it, give its id as restore_from to `cf create-service`, or as "+
			"restore_backup to `cf update-service`.", id),
	}
}

func (b backingUp) reader() string {
	return copying.CopyAccount(store.Instance{Database: b.instance.Database}, "backup "+b.id)
}

// write writes the backup.
func (b backingUp) write(ctx context.Context, run *task.Run) error {
	recorded, err := b.Store.Backups.Get(ctx, b.id)
	if err != nil {
		return fmt.Errorf("read the record of the backup: %w", err)
	}
	reader := mysqladmin.Account{Name: b.reader(), Password: engine.NewPassword(), Database: b.instance.Database,
		Role: plan.ReadOnly, LockTables: true}
	if err := b.copier.RecordAccount(ctx, run, b.instance.ID, reader); err != nil {
		return err
	}
	if err := b.asReader(ctx, run, func(ctx context.Context, s *mysqladmin.Session) error {
		return copying.CreateAnew(ctx, s, reader)
	}); err != nil {
		return err
	}
	var m backup.Manifest
	err = b.copier.ReadFrom(ctx, b.instance, func(ctx context.Context, admin *mysqladmin.Server) (err error) {
		m, err = b.writeFrom(ctx, run, admin, reader, recorded)
		return err
	})
	if err != nil {
		return b.explain(ctx, run, err)
	}
	if m.BinaryLog != nil {
		if err := markKey.Remember(run, MarkOf(m)); err != nil {
			return err
		}
	}
	return summary.Remember(run, RecordOf(m))
}

// asReader runs fn in a session with the lock of the account that reads. Binds and unbinds need not wait for it.
func (b backingUp) asReader(ctx context.Context, run *task.Run,
	fn func(context.Context, *mysqladmin.Session) error) error {
	return b.InSession(b.instance, steps.BindingLock(b.instance.ID, b.reader()),
		func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error { return fn(ctx, s) })(ctx, run)
}

func (b backingUp) writeFrom(ctx context.Context, run *task.Run, admin *mysqladmin.Server, reader mysqladmin.Account,
	recorded store.Backup) (m backup.Manifest, err error) {
	flavour, err := admin.Flavour(ctx)
	if err != nil {
		return m, &transfer.SourceError{Err: err}
	}
	size, err := admin.Sizes.Of(ctx, b.instance.Database)
	if err != nil {
		return m, &transfer.SourceError{Err: err}
	}
	m = backup.Manifest{ID: b.id, InstanceID: b.instance.ID, InstanceName: recorded.InstanceName,
		ServiceID: recorded.ServiceID, PlanID: recorded.PlanID, Platform: recorded.Platform,
		Organization: recorded.OrganizationGUID, Space: recorded.SpaceGUID, Reason: recorded.Reason,
		Flavour: flavour.Name, Version: flavour.Version, KeepUntil: recorded.KeepUntil,
		TakenAt: run.Now().UTC().Truncate(time.Millisecond), DataBytes: size.Used(size.Files)}
	o := b.copier.Options(ctx, run, "written", engine.Percent("Writing the backup"))
	if err := b.mark(ctx, admin, &m, &o); err != nil {
		return m, err
	}
	o.Locked = copying.OnceLocked(run, o.Locked)
	if b.patience > 0 {
		var stall context.CancelCauseFunc
		ctx, stall = context.WithCancelCause(ctx)
		defer stall(nil)
		stalled := time.AfterFunc(b.patience, func() { stall(errStalled) })
		defer stalled.Stop()
		progress := o.Progress
		o.Progress = func(done, total uint64) {
			stalled.Reset(b.patience)
			progress(done, total)
		}
	}
	err = b.copier.Read(ctx, b.instance, admin, reader, func(from transfer.Source) (err error) {
		m, err = b.vault.Write(ctx, m, from, o)
		return err
	})
	if context.Cause(ctx) == errStalled {
		err = errStalled
	}
	return m, err
}

// explain says what users read about a backup that failed.
func (b backingUp) explain(ctx context.Context, run *task.Run, err error) error {
	return copying.Failed(ctx, run, err, func(err error) error {
		switch {
		case mysqladmin.CannotReach(err):
			return engine.Fail(run.Task, engine.ServerSilent, err)
		case mysqladmin.NoDatabase(err):
			return engine.Fail(run.Task, engine.DatabaseDropped, err)
		}
		return err
	}, func(err error) error {
		if b.patience > 0 && !objectstore.Refused(err) {
			return engine.Fail(run.Task, engine.StoreStalled, err)
		}
		return explainObjectStore(run, err)
	})
}

// explainObjectStore says what users read about a failure of the object store.
func explainObjectStore(run *task.Run, err error) error {
	if objectstore.Refused(err) {
		return engine.Fail(run.Task, engine.StoreRefused, err)
	}
	return engine.Fail(run.Task, engine.StoreFailed, err)
}

// unfinishedTime is how long the deletion of what was written keeps the instance busy.
const unfinishedTime = 10 * time.Second

// deleteUnfinished deletes what was written and the record. Nobody waits for an object store that fails or hangs: what
// is left then is deleted with the backups whose days are over.
func (b backingUp) deleteUnfinished(ctx context.Context, run *task.Run) error {
	err := errNoStoreHere
	if b.vault != nil {
		within, cancel := context.WithTimeout(ctx, unfinishedTime)
		defer cancel()
		err = b.vault.Delete(within, b.instance.ID, b.id)
	}
	if ctx.Err() != nil {
		return cmp.Or(err, context.Cause(ctx))
	}
	if err != nil {
		b.Log.Warn("could not delete an unfinished backup; retrying", "task", task.Token(run.Task.ID),
			"backup", b.id, "error", err)
		return nil
	}
	if err := run.Alive(); err != nil {
		return err
	}
	return b.Store.Backups.ForgetUnfinished(ctx, b.id)
}

// dropReader drops the account that reads, if it was recorded.
func (b backingUp) dropReader(ctx context.Context, run *task.Run) error {
	of, err := b.Store.Instances.Find(ctx, b.reader())
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || of != b.instance.ID {
		return errors.Join(err, errors.New("the account that reads is recorded with another instance"))
	}
	if err := b.asReader(ctx, run, func(ctx context.Context, s *mysqladmin.Session) error {
		return s.Accounts.Drop(ctx, b.reader())
	}); err != nil {
		return err
	}
	return b.Store.CopyAccounts.Forget(ctx, engine.LeaseOf(run.Task), b.reader())
}
