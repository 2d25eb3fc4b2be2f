package provisioner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// beforeRestore is the reason of the backup of what a restore in place replaces.
const beforeRestore = "restore"

// restoreInPlace begins to replace the data of an instance by those of a backup. The request has to name the instance,
// as a confirmation: its data are replaced, and nobody can write meanwhile.
func (p *Provisioner) restoreInPlace(ctx context.Context, i store.Instance, q UpdateRequest) (Result, error) {
	// The name may have changed since the creation.
	name := cmp.Or(nameOf(store.Instance{Context: q.Context}), nameOf(i), i.ID)
	of := p.planOf(i)
	switch {
	case q.Plan.ID != of.ID || q.Upgrade:
		return Result{}, refuse(Invalid, "A backup is not restored together with another change. Send two requests.")
	case p.vault == nil:
		return Result{}, errNoBackups
	case q.Parameters.Confirm != name:
		return Result{}, refuse(Invalid, `The backup replaces all data of the service instance. Repeat the name of the `+
			`service instance to confirm that: "confirm":%q.`, name)
	case !q.AcceptsIncomplete:
		return Result{}, errAsyncRequired
	}
	b, err := p.store.FindBackup(ctx, q.Parameters.RestoreBackup)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Result{}, fmt.Errorf("look for the backup: %w", err)
	}
	if err != nil || b.ID != q.Parameters.RestoreBackup || !p.mayRestore(b, i) {
		return Result{}, noBackup(q.Parameters.RestoreBackup)
	}
	if err := backupFits(b, of); err != nil {
		return Result{}, err
	}
	_, result, err := p.operate(ctx, store.Restore, func(tx *store.Tx) (decision, error) {
		return p.decideRestore(ctx, tx, i.ID, b.ID)
	})
	return result, err
}

// mayRestore reports whether a backup may be restored into an instance: one of its own, or one that its tenant may use.
func (p *Provisioner) mayRestore(b store.Backup, i store.Instance) bool {
	of := tenantOf(i.OrganizationGUID, i.SpaceGUID, i.Context)
	its := tenant{b.Platform, b.OrganizationGUID, b.SpaceGUID}
	// Another tenant's instance may have had the same id.
	own := b.InstanceID == i.ID && its == of && !b.CreatedAt.Before(i.CreatedAt)
	return own || of.mayUse(its, p.planOf(i), p.plans.Get(b.PlanID))
}

func (p *Provisioner) decideRestore(ctx context.Context, tx *store.Tx, id, backupID string) (d decision, err error) {
	there, err := beginOn(ctx, tx, id)
	if err != nil {
		return d, err
	}
	i, active := there.Instance, there.Task("")
	d = decision{instance: i, async: true}
	switch {
	case active != nil && active.Kind == store.Restore && restores(*active, backupID):
		d.task, d.joined = active, true
		return d, nil
	case len(there.Active) > 0:
		return d, errBusy
	case i.State != store.Ready:
		return d, errNotReady
	}
	n, r := newRestore(tx, p.plans, i, backupID, false)
	d.task = tx.InsertTask(p.newTask(ctx, n))
	d.workflow = p.restoreWorkflow(i, r)
	return d, nil
}

// restores reports whether a task restores that backup.
func restores(t store.Task, backupID string) bool {
	var r request
	return json.Unmarshal(t.Request, &r) == nil && r.RestoreID == backupID
}

const restoringSentence = "Restoring a backup"

// newRestore returns a task that restores a backup in place. It also records the backup of the present data, unless the
// server has lost them.
func newRestore(tx *store.Tx, plans plan.Set, i store.Instance, backupID string, lost bool) (store.NewTask, request) {
	r := request{Async: true, RestoreID: backupID, Lost: lost}
	if !lost {
		_, b := newBackup(i, beforeRestore)
		tx.InsertBackup(b, keepBackups(plans.Get(i.PlanID)))
		r.BackupID = b.ID
	}
	return store.NewTask{InstanceID: i.ID, Kind: store.Restore, PlanID: i.PlanID, Description: restoringSentence,
		Request: r.json()}, r
}

// RestoreBackup records a task that restores a backup into an instance, for any broker. lost says that the instance's
// server has lost the database and the accounts, or was lost itself. The error is store.ErrNotFound if there is no such
// instance.
func RestoreBackup(ctx context.Context, s *store.Store, plans plan.Set, backupID, instanceID string,
	lost bool) (recorded store.Task, err error) {
	b, err := s.FindBackup(ctx, backupID)
	if errors.Is(err, store.ErrNotFound) || err == nil && b.ID != backupID {
		return recorded, noBackup(backupID)
	}
	if err != nil {
		return recorded, err
	}
	var t *store.Task
	err = s.InTx(ctx, func(tx *store.Tx) error {
		there, err := tx.Begin(ctx, instanceID, "")
		if err != nil {
			return err
		}
		i := there.Instance
		if len(there.Active) > 0 || i.State != store.Ready {
			return errNotNow
		}
		if err := backupFits(b, plans.Of(i.PlanID, i.ServiceID, plan.Kind(i.Location.Kind))); err != nil {
			return err
		}
		n, _ := newRestore(tx, plans, i, backupID, lost)
		t = tx.InsertTask(n)
		return nil
	})
	if err != nil {
		return recorded, err
	}
	return *t, nil
}

var restoreKind = kind{
	beginning: restoringSentence,
	Kind: task.Kind{Advice: "The service instance has its earlier data; restore the backup again later.",
		Undoable: true},
	workflow: func(ctx context.Context, p *Provisioner, t store.Task) (task.Workflow, error) {
		i, r, err := p.instanceTask(ctx, t)
		if err != nil {
			return task.Workflow{}, err
		}
		if p.vault == nil {
			return task.Workflow{}, errors.New("this broker has no object store")
		}
		return p.restoreWorkflow(i, r), nil
	},
}

// restoring is the work of a restore in place. First it reads the whole backup, so that a damaged one changes nothing.
// From then on, nobody may write until the end. It backs up the present data and then replaces them; rows that are the
// same stay. If it fails, or an operator cancels the task, it puts the earlier data back from that backup.
type restoring struct {
	backingUp        // of what is there
	from      string // the backup to restore
	lost      bool
}

// Keys under which the task remembers that accounts may be frozen, that the data may have changed, and that the
// instance is no longer over its quota.
const (
	accountsFrozen = "frozen"
	dataChanged    = "changed"
	belowQuota     = "below"
)

func (p *Provisioner) restoreWorkflow(i store.Instance, r request) task.Workflow {
	if r.Lost {
		i.Endpoint = nil // a new server has a new one
	}
	w := restoring{backingUp{p, i, r.BackupID}, r.RestoreID, r.Lost}
	check := task.Step{Name: "check", Progress: "Reading the backup", Timeout: backupTimeout, Do: p.inTurn(w.check)}
	replace := task.Step{Name: "restore", Progress: restoringSentence, Timeout: fillTimeout,
		Do: p.keepingTurn(true, w.replace)}
	endOwner := task.Step{Name: "end owner", Progress: "Finishing the database", Timeout: accountsTimeout, Do: w.endOwner}
	endDefiners := endOwner
	endDefiners.Do = w.endDefiners
	flow := task.Workflow{
		Durable: true,
		Succeeded: func(tx *store.Tx, m task.Memory) {
			below := false
			if _, err := m.Recall(belowQuota, &below); err == nil && below {
				tx.SetOver(i.ID, false)
			}
		},
		Failed: func(*store.Tx, bool) {},
	}
	if r.Lost {
		flow.Advice = fmt.Sprintf("The lost database has the data of the backup %s. The bindings are as before.",
			r.RestoreID)
		flow.Steps = append(append([]task.Step{check}, w.makeAgain()...), replace, endOwner)
		if i.Location.Dedicated() {
			flow.Steps = append(flow.Steps, task.Step{Name: "keep", Progress: "Handing the server over",
				Do: func(ctx context.Context, _ *task.Run) error { return p.fleet.Keep(ctx, i.Location) }})
		}
		flow.Cleanup = []task.Step{endOwner}
		return flow
	}
	flow.Advice = fmt.Sprintf("The data are those of the backup %s again. What was there before is the backup %s, which "+
		"can be restored in the same way.", r.RestoreID, r.BackupID)
	dropReader := task.Step{Name: "drop reader", Progress: "Dropping the account that read", Timeout: accountsTimeout,
		Do: w.dropReader}
	flow.Steps = []task.Step{check,
		{Name: "freeze", Progress: "Waiting for the last writes", Timeout: accountsTimeout,
			Do: p.keepingTurn(false, w.freeze)},
		{Name: "write", Progress: "Backing up what is there", Timeout: backupTimeout,
			Do: p.keepingTurn(false, w.write)},
		dropReader,
		{Name: "record", Progress: "Recording the backup", Do: w.record},
		replace, endDefiners,
		{Name: "thaw", Progress: "Giving the write privileges back", Timeout: accountsTimeout, Do: w.thaw}}
	flow.Cleanup = []task.Step{
		{Name: "put back", Progress: "Putting the earlier data back", Timeout: fillTimeout,
			Do: p.keepingTurn(true, w.putBack)},
		endDefiners,
		{Name: "thaw", Progress: "Giving the write privileges back", Timeout: accountsTimeout, Do: w.thawAsBefore},
		dropReader,
		{Name: "delete", Progress: "Deleting the unfinished backup", Timeout: accountsTimeout, Do: w.deleteIncomplete}}
	return flow
}

// owner is the account that creates everything, and becomes the definer. Each restore has its own: programs of an
// earlier one must not write while this one may.
func (w restoring) owner() string { return copyAccount(w.instance, "restoring owner "+w.id) }

func (w restoring) filling() filling {
	return filling{Provisioner: w.Provisioner, instance: w.instance, lock: instanceLock(w.instance.ID)}
}

// manifest reads the manifest of a backup that is recorded.
func (w restoring) manifest(ctx context.Context, run *task.Run, id string) (m backup.Manifest, err error) {
	b, err := w.store.Backup(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return m, errBackupGone(err)
	}
	if err != nil {
		return m, fmt.Errorf("read the record of the backup: %w", err)
	}
	m, err = w.vault.Manifest(ctx, b.InstanceID, b.ID)
	if err != nil {
		err = explainBackup(run, err)
	}
	return m, err
}

// check reads the whole backup before anything is changed, and looks whether the server can take it.
func (w restoring) check(ctx context.Context, run *task.Run) error {
	m, err := w.manifest(ctx, run, w.from)
	if err != nil {
		return err
	}
	from := mysqladmin.Flavour{Name: m.Flavour, Version: m.Version}
	if !w.lost {
		err = w.fleet.AsAdmin(ctx, w.instance, func(admin *mysqladmin.Server) error {
			to, err := admin.Flavour(ctx)
			if err == nil && !to.CanTake(from) {
				return task.Permanent(fmt.Sprintf("The server of this service instance is %s, and cannot take a backup of %s.",
					to, from), errors.New("another flavour, or an older version"))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	err = w.vault.Check(ctx, m, run.Alive, w.reportProgress(ctx, run, "checked", percent("Reading the backup")))
	if err == nil || ctx.Err() != nil || run.Alive() != nil {
		return err
	}
	return explainBackup(run, err)
}

// makeAgain returns the steps that create the server, the database and the accounts of the bindings again.
func (w restoring) makeAgain() (steps []task.Step) {
	if w.instance.Location.Dedicated() {
		steps = append(steps, w.launch(w.instance))
	}
	return append(steps, task.Step{Name: "create database", Progress: "Creating the database",
		Do: w.inSession(w.instance, instanceLock(w.instance.ID),
			func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
				return s.CreateDatabase(ctx, w.instance.Database, "", "")
			})},
		task.Step{Name: "create accounts", Progress: "Creating the accounts of the bindings", Timeout: accountsTimeout,
			Do: func(ctx context.Context, run *task.Run) error {
				accounts, err := w.users(ctx)
				if err != nil {
					return err
				}
				return w.createAccounts(ctx, run, w.instance, accounts)
			}})
}

// writers lists the accounts that may write before the task does, also as definers.
func (w restoring) writers(ctx context.Context) ([]store.BindingAccount, error) {
	accounts, err := w.store.Accounts(ctx, w.instance.ID)
	if err != nil {
		return nil, fmt.Errorf("list the accounts: %w", err)
	}
	return without(accounts, w.reader()), nil
}

// users lists the accounts of the instance but those of this task.
func (w restoring) users(ctx context.Context) ([]store.BindingAccount, error) {
	accounts, err := w.writers(ctx)
	return without(accounts, w.owner()), err
}

func (w restoring) freeze(ctx context.Context, run *task.Run) error {
	if err := errors.Join(run.Remember(accountsFrozen, true), run.Save(ctx)); err != nil {
		return err
	}
	accounts, err := w.writers(ctx)
	if err != nil {
		return err
	}
	return w.freezeAccounts(ctx, run, w.instance, accounts)
}

// record records that the backup of the present data is complete. From then on it stays, even if the restore fails.
func (w restoring) record(ctx context.Context, run *task.Run) error {
	var written store.Backup
	if found, err := run.Recall(summary, &written); err != nil || !found {
		return errors.Join(err, errors.New("the facts of the backup are lost"))
	}
	var mark *store.BackupPosition
	if _, err := run.Recall(markKey, &mark); err != nil {
		return err
	}
	return w.store.RecordWritten(ctx, leaseOf(run.Task), written, mark)
}

// replace replaces the data by those of the backup.
func (w restoring) replace(ctx context.Context, run *task.Run) error {
	m, err := w.manifest(ctx, run, w.from)
	if err != nil {
		return err
	}
	of, err := w.plan(w.instance.PlanID)
	if err != nil {
		return err
	}
	current, err := w.store.Instance(ctx, w.instance.ID)
	if err != nil {
		return fmt.Errorf("read the instance: %w", err)
	}
	if err := errors.Join(run.Remember(dataChanged, true), run.Save(ctx)); err != nil {
		return err
	}
	o := transfer.Options{Events: of.Events, MaxBytes: 4*of.Quota() + 64<<20,
		Progress: w.reportProgress(ctx, run, "restored", percent(restoringSentence))}
	// The files of tables do not shrink with their rows.
	return explainRestore(ctx, run, leavingOutBroken(run, func(leftOut func(string, bool, error) bool) error {
		o.LeftOut = leftOut
		return w.load(ctx, run, m, o, of.Events, current.OverSince != nil)
	}))
}

// load replaces the data by those of a backup. If empty is true, it drops all tables first.
func (w restoring) load(ctx context.Context, run *task.Run, m backup.Manifest, o transfer.Options,
	events, empty bool) error {
	err := w.store.RecordCopyAccount(ctx, leaseOf(run.Task), store.CopyAccount{InstanceID: w.instance.ID,
		Account: w.owner(), Role: string(plan.Admin)})
	if err != nil {
		return fmt.Errorf("record the owner: %w", err)
	}
	owner := mysqladmin.Account{Name: w.owner(), Password: newPassword(), Database: w.instance.Database, Role: plan.Admin,
		Events: events}
	f := w.filling()
	err = w.inSession(w.instance, f.lock, func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
		return createAnew(ctx, s, owner)
	})(ctx, run)
	if err != nil {
		return err
	}
	o.Alive, o.InPlace = run.Alive, true
	return f.asOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
		if empty {
			if err := transfer.Empty(ctx, to, run.Alive); err != nil {
				return err
			}
		}
		return w.vault.Restore(ctx, m, to, o)
	})
}

// putBack restores the earlier data if they may have changed. The task retries it until it succeeds.
func (w restoring) putBack(ctx context.Context, run *task.Run) error {
	if found, err := run.Recall(dataChanged, new(bool)); err != nil || !found {
		return err
	}
	err := w.putBackOnce(ctx, run)
	if err == nil || ctx.Err() != nil || run.Alive() != nil {
		return err
	}
	return task.RequeueElsewhere(fmt.Errorf("put the data of before back: %w", err))
}

func (w restoring) putBackOnce(ctx context.Context, run *task.Run) error {
	m, err := w.manifest(ctx, run, w.id)
	if err != nil {
		return err
	}
	o := transfer.Options{Events: true, Progress: w.reportProgress(ctx, run, "put back", percent("Putting the data back")),
		LeftOut: func(program string, _ bool, err error) bool {
			w.log.Warn("a program was broken before a backup was restored, and could not be put back", "task",
				task.Token(run.Task.ID), "instance_id", w.instance.ID, "name", program, "error", err)
			return true
		}}
	return w.load(ctx, run, m, o, true, false)
}

// endOwner locks the owner, or drops it if it defines nothing.
func (w restoring) endOwner(ctx context.Context, run *task.Run) error {
	of, err := w.store.FindInstance(ctx, w.owner())
	if errors.Is(err, store.ErrNotFound) { // it was not created
		return nil
	}
	if err != nil || of != w.instance.ID {
		return errors.Join(err, errors.New("the owner is recorded with another instance"))
	}
	return w.inSession(w.instance, instanceLock(w.instance.ID),
		func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
			return w.endCopyAccount(ctx, run, s, w.instance, w.owner(), plan.Admin)
		})(ctx, run)
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
	return w.inSession(w.instance, instanceLock(w.instance.ID),
		func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
			for _, a := range accounts {
				if a.BindingID != "" || roleOf(a) == plan.ReadOnly { // which may read for a copy, and cannot define anything
					continue
				}
				if err := w.endCopyAccount(ctx, run, s, w.instance, a.Account, roleOf(a)); err != nil {
					return err
				}
			}
			return nil
		})(ctx, run)
}

// thaw lets applications write again. An instance that was over its quota may be below it now.
func (w restoring) thaw(ctx context.Context, run *task.Run) error {
	current, err := w.store.Instance(ctx, w.instance.ID)
	if err != nil {
		return fmt.Errorf("read the instance: %w", err)
	}
	restricted := current.OverSince != nil
	if restricted {
		size, err := w.databaseSize(ctx, w.instance)
		if err != nil {
			return err
		}
		quota := w.plans.Get(w.instance.PlanID).Quota()
		restricted = size.Used(quota)*100 >= quota*plan.RestoreBelow
		if err := run.Remember(belowQuota, !restricted); err != nil {
			return err
		}
	}
	accounts, err := w.users(ctx)
	if err != nil {
		return err
	}
	return w.thawAccounts(ctx, run, w.instance, accounts, restricted)
}

func (w restoring) thawAsBefore(ctx context.Context, run *task.Run) error {
	if found, err := run.Recall(accountsFrozen, new(bool)); err != nil || !found {
		return err
	}
	current, err := w.store.Instance(ctx, w.instance.ID)
	if err != nil {
		return fmt.Errorf("read the instance: %w", err)
	}
	accounts, err := w.writers(ctx)
	if err != nil {
		return err
	}
	return w.thawAccounts(ctx, run, w.instance, accounts, current.OverSince != nil)
}

// deleteIncomplete deletes the backup of the earlier data unless it is complete.
func (w restoring) deleteIncomplete(ctx context.Context, run *task.Run) error {
	b, err := w.store.Backup(ctx, w.id)
	if errors.Is(err, store.ErrNotFound) || err == nil && b.State != store.BackupInProgress {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the record of the backup: %w", err)
	}
	return w.deleteUnfinished(ctx, run)
}
