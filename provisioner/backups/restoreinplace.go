package backups

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// RestoreInPlace begins to replace the data of an instance by those of a backup. The request has to name the instance,
// as a confirmation: its data is replaced, and nobody can write meanwhile.
func (bs *Backups) RestoreInPlace(ctx context.Context, i store.Instance,
	q engine.UpdateRequest) (engine.Result, error) {
	// The name may have changed since the creation.
	name := cmp.Or(nameOf(store.Instance{Context: q.Context}), nameOf(i), i.ID)
	of := bs.PlanOf(i)
	switch {
	case q.Plan.ID != of.ID || q.Upgrade:
		return engine.Result{}, engine.Refuse(engine.Invalid,
			"A backup is not restored together with another change. Send two requests.")
	case bs.vault == nil:
		return engine.Result{}, errNoBackups
	case q.Parameters.Confirm != name:
		return engine.Result{}, engine.Refuse(engine.Invalid,
			`The backup replaces all data of the service instance. Repeat the name of the `+
				`service instance to confirm that: "confirm":%q.`, name)
	case !q.AcceptsIncomplete:
		return engine.Result{}, engine.ErrAsyncRequired
	}
	b, err := bs.Store.Backups.Find(ctx, q.Parameters.RestoreBackup)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return engine.Result{}, fmt.Errorf("find the backup: %w", err)
	}
	if err != nil || b.ID != q.Parameters.RestoreBackup || !bs.mayRestore(b, i) {
		return engine.Result{}, noBackup(q.Parameters.RestoreBackup)
	}
	if err := backupFits(b, of); err != nil {
		return engine.Result{}, err
	}
	_, result, err := bs.Operate(ctx, store.Restore, func(tx *store.Tx) (engine.Decision, error) {
		return bs.decideRestore(ctx, tx, i.ID, b.ID)
	})
	return result, err
}

// mayRestore reports whether a backup may be restored into an instance: its own backup, or one that its tenant may use.
func (bs *Backups) mayRestore(b store.Backup, i store.Instance) bool {
	of := copying.TenantOf(i.OrganizationGUID, i.SpaceGUID, i.Context)
	its := ownerOf(b)
	// Another tenant's instance may have had the same id.
	own := b.InstanceID == i.ID && its == of && !b.CreatedAt.Before(i.CreatedAt)
	return own || of.MayUse(its, bs.PlanOf(i), bs.Plans.Get(b.PlanID))
}

func (bs *Backups) decideRestore(ctx context.Context, tx *store.Tx,
	id, backupID string) (d engine.Decision, err error) {
	there, err := engine.BeginOn(ctx, tx, id)
	if err != nil {
		return d, err
	}
	i, active := there.Instance, there.Task("")
	d = engine.Decision{Instance: i, Async: true}
	if active != nil && active.Kind == store.Restore && restores(*active, backupID) {
		d.Task, d.Joined = active, true
		return d, nil
	}
	if err := (engine.Beside{Mixture: true}).Refusal(there); err != nil {
		return d, err
	}
	n, r := newRestore(tx, bs.Plans, i, backupID, false)
	d.Task = tx.InsertTask(bs.NewTask(ctx, n))
	d.Workflow = bs.restoreWorkflow(i, r)
	return d, nil
}

// restores reports whether a task restores that backup.
func restores(t store.Task, backupID string) bool {
	var r engine.Request
	return json.Unmarshal(t.Request, &r) == nil && r.RestoreID == backupID
}

const restoringSentence = "Restoring a backup"

// newRestore returns a task that restores a backup in place. It also records the backup of the present data, unless the
// server has lost them.
func newRestore(tx *store.Tx, plans plan.Set, i store.Instance, backupID string,
	lost bool) (store.NewTask, engine.Request) {
	r := engine.Request{Async: true, RestoreID: backupID, Lost: lost}
	if !lost {
		_, r.BackupID = Insert(tx, plans, i, beforeRestore)
	}
	return store.NewTask{InstanceID: i.ID, Kind: store.Restore, PlanID: i.PlanID, Description: restoringSentence,
		Request: r.JSON()}, r
}

// RestoreBackup records a task that restores a backup into an instance, for any broker. lost says that the instance's
// server has lost the database and the accounts, or was lost itself. The error is store.ErrNotFound if there is no such
// instance.
func RestoreBackup(ctx context.Context, s *store.Store, plans plan.Set, backupID, instanceID string,
	lost bool) (recorded store.Task, err error) {
	b, err := s.Backups.Find(ctx, backupID)
	if errors.Is(err, store.ErrNotFound) || err == nil && b.ID != backupID {
		return recorded, noBackup(backupID)
	}
	if err != nil {
		return recorded, err
	}
	return engine.Record(ctx, s, instanceID, engine.Beside{Mixture: true},
		func(tx *store.Tx, i store.Instance) (store.NewTask, error) {
			err := backupFits(b, plans.Of(i.PlanID, i.ServiceID, plan.Kind(i.Location.Kind)))
			if err != nil {
				return store.NewTask{}, err
			}
			n, _ := newRestore(tx, plans, i, backupID, lost)
			return n, nil
		})
}

var restoreKind = engine.Kind[*Backups]{
	Beginning: restoringSentence,
	Kind: task.Kind{Undoable: true, AdviceOf: func(t store.Task) string {
		var r engine.Request
		if err := json.Unmarshal(t.Request, &r); err != nil {
			return "Restore the backup again later."
		}
		return undoneSentence(r.Lost) + " Restore the backup again later."
	}},
	Workflow: engine.OfInstance(func(bs *Backups, i store.Instance, r engine.Request) task.Workflow {
		return bs.onlyWithStore(bs.restoreWorkflow(i, r))
	}),
}

// undoneSentence says what becomes of the data if a restore fails. A lost database has no earlier ones.
func undoneSentence(lost bool) string {
	if lost {
		return "What was restored is dropped, and the database is lost as before."
	}
	return "The service instance gets its earlier data back."
}

// restoring is the work of a restore in place. First it reads the whole backup, so that a damaged one changes nothing.
// It restores the backup into a database beside that of the instance. From then on, nobody may write until the end: it
// backs up the present data, moves their tables into another database, and those of the backup into their place. What
// was there is dropped once everything is complete. If the restore fails before, or an operator cancels the task, the
// tables are moved back; views, routines, triggers and events, which servers cannot move, come from the backup of the
// present data. If that cannot be done either, nobody may write until another restore has succeeded.
type restoring struct {
	backingUp        // of what is there
	from      string // the backup to restore
	lost      bool
}

// frozenPatience is for the backup of what is there: nobody may write meanwhile, so that a restore fails rather than
// waits for an object store.
const frozenPatience = 30 * time.Second

// What the task remembers.
const (
	foundLost      task.Key[bool]      = "found lost"
	foundDropped   task.Key[bool]      = "found dropped"
	wasReadOnly    task.Key[bool]      = "read-only"
	accountsFrozen task.Key[bool]      = "frozen"         // accounts may be
	dataChanged    task.Key[bool]      = "changed"        // the data may have
	notBackSince   task.Key[time.Time] = "not back since" // the data could not be put back then, for the first time
	mixed          task.Key[bool]      = "mixed"          // that was given up
	asBefore       task.Key[bool]      = "as before"      // the earlier data is there
	belowQuota     task.Key[bool]      = "below"          // the instance is no longer over its quota
)

func (bs *Backups) restoreWorkflow(i store.Instance, r engine.Request) task.Workflow {
	if r.Lost {
		i.Endpoint = nil // a new server has a new one
	}
	w := restoring{backingUp{bs, i, r.BackupID, frozenPatience}, r.RestoreID, r.Lost}
	flow := task.Workflow{
		Durable: true,
		Succeeded: func(tx *store.Tx, m task.Memory) {
			tx.SetFrozen(i.ID, false)
			if below, _, err := belowQuota.In(m); err == nil && below {
				tx.SetOver(i.ID, false)
			}
		},
	}
	check := task.Step{Name: "check", Progress: "Reading the backup", Timeout: backupTimeout,
		Do: bs.copier.InTurn(w.check)}
	restore := task.Step{Name: "restore", Progress: restoringSentence, Timeout: copying.FillTimeout,
		Do: bs.copier.KeepingTurn(r.Lost, w.restoreLost)}
	if r.Lost {
		flow.Advice = fmt.Sprintf("The lost database has the data of the backup %s. The bindings are as before.",
			r.RestoreID)
		flow.Failed = func(tx *store.Tx, _ task.Memory, _ bool) { tx.MarkGrants(i.ID) } // of accounts that were not lost
		endOwner := end(w.endOwner)
		// Applications must not write before all data is there.
		flow.Steps = append(append([]task.Step{check}, w.makeAgain()...), restore,
			task.Step{Name: "create accounts", Progress: "Creating the accounts of the bindings",
				Timeout: steps.AccountsTimeout, Do: w.createAccounts}, endOwner)
		if i.Location.Dedicated() {
			flow.Steps = append(flow.Steps, task.Step{Name: "keep", Progress: "Handing the server over",
				Do: func(ctx context.Context, _ *task.Run) error { return bs.Fleet.Keep(ctx, i.Location) }})
		}
		flow.Cleanup = []task.Step{{Name: "drop database", Progress: "Dropping the database", Timeout: steps.DropTimeout,
			Do: w.dropIncomplete}, endOwner}
		return flow
	}
	flow.Advice = fmt.Sprintf("The data is that of the backup %s again.", r.RestoreID)
	flow.NotUndone = func(m task.Memory) string {
		if done, _, _ := switched.In(m); done {
			return fmt.Sprintf("The data is that of the backup %s, but apps may be able only to read for some minutes more.",
				r.RestoreID)
		}
		if back, _, _ := asBefore.In(m); back {
			return "The backup could not be restored. The data is as before, but apps may be able only to read for some " +
				"minutes more."
		}
		return fmt.Sprintf("The backup could not be restored, and that could not be undone. The data may be a mixture of "+
			"both, so apps can only read until you restore a backup in place. The earlier data is in the backup %s.",
			r.BackupID)
	}
	flow.Failed = func(tx *store.Tx, m task.Memory, undone bool) {
		back, _, _ := asBefore.In(m)
		done, _, _ := switched.In(m)
		switch {
		case undone:
		case back, done:
			tx.MarkGrants(i.ID)
		default:
			tx.SetFrozen(i.ID, true)
		}
	}
	dropReader, deleteIncomplete := w.endSteps()
	endDefiners := end(w.endDefiners)
	dropBeside := task.Step{Name: "drop beside", Progress: "Dropping what is not needed any more",
		Timeout: steps.DropTimeout, Do: w.dropBeside}
	dropKept := dropBeside
	dropKept.Name, dropKept.Do = "drop kept", w.dropKept
	restore.Do = bs.copier.KeepingTurn(false, w.fill)
	flow.Steps = []task.Step{check, restore,
		{Name: "freeze", Progress: "Waiting for the last writes", Timeout: steps.AccountsTimeout,
			Do: bs.copier.KeepingTurn(false, w.freeze)},
		{Name: "write", Progress: "Backing up what is there", Timeout: backupTimeout,
			Do: bs.copier.KeepingTurn(false, w.write)},
		dropReader,
		{Name: "record", Progress: "Recording the backup", Do: w.record},
		{Name: "switch", Progress: "Switching to the restored data", Timeout: copying.FillTimeout,
			Do: bs.copier.KeepingTurn(true, w.switchOver)},
		endDefiners, dropKept,
		{Name: "thaw", Progress: "Giving the write privileges back", Timeout: steps.AccountsTimeout, Do: w.thaw}}
	flow.Cleanup = []task.Step{
		{Name: "put back", Progress: "Putting the earlier data back", Timeout: copying.FillTimeout,
			Do: bs.copier.KeepingTurn(true, w.putBack)},
		endDefiners,
		{Name: "thaw", Progress: "Giving the write privileges back", Timeout: steps.AccountsTimeout, Do: w.thawAsBefore},
		dropBeside, dropReader,
		deleteIncomplete,
		{Name: "look", Progress: "Checking that the earlier data is back", Do: looksBack}}
	return flow
}

// end is the step that ends the access of accounts that have written the data.
func end(do func(context.Context, *task.Run) error) task.Step {
	return task.Step{Name: "end owner", Progress: "Finishing the database", Timeout: steps.AccountsTimeout, Do: do}
}
