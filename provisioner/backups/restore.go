package backups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// BackupToRestore finds the backup that a request names with restore_from. What is not there and what belongs to
// somebody else gets the same answer.
func (bs *Backups) BackupToRestore(ctx context.Context, q engine.ProvisionRequest) (b store.Backup, err error) {
	if bs.vault == nil {
		return b, errNoBackups
	}
	name := q.Parameters.RestoreFrom
	b, err = bs.Store.Backups.Find(ctx, name)
	if until := q.Parameters.RestoreToTime; err == nil && !until.IsZero() {
		by, of := copying.TenantOf(q.OrganizationGUID, q.SpaceGUID, q.Context), ownerOf(b)
		if by.MayUse(of, q.Plan, bs.Plans.Get(b.PlanID)) {
			b, err = bs.backupBefore(ctx, q.Plan, name, until)
			if refusal, ok := errors.AsType[*engine.Error](err); ok {
				return b, refusal
			}
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return b, fmt.Errorf("find the backup: %w", err)
	}
	by, of := copying.TenantOf(q.OrganizationGUID, q.SpaceGUID, q.Context), ownerOf(b)
	if err != nil || !by.MayUse(of, q.Plan, bs.Plans.Get(b.PlanID)) {
		return b, by.Refuse(noBackup(name))
	}
	if b.ID != name && b.VerifiedAt == nil && q.Parameters.RestoreToTime.IsZero() {
		return b, engine.Refuse(engine.Invalid, "No backup of the service instance %s is verified yet. Wait for that, or "+
			"give the id of its latest backup as restore_from: %s.", name, b.ID)
	}
	return b, backupFits(b, q.Plan)
}

// ownerOf is the tenant whose data a backup has.
func ownerOf(b store.Backup) copying.Tenant {
	return copying.Tenant{Platform: b.Platform, Organization: b.OrganizationGUID, Space: b.SpaceGUID}
}

// noBackup refuses a request that names a backup which does not exist or belongs to another tenant.
func noBackup(name string) error {
	return engine.Refuse(engine.Invalid, "There is no backup %s in this space.", name)
}

// backupFits refuses a backup of more data than a plan allows.
func backupFits(b store.Backup, of plan.Plan) error {
	if b.DataBytes <= of.Quota() {
		return nil
	}
	return engine.Refuse(engine.Invalid, "The backup %s has %d MiB and plan %s allows %d MiB. Choose a larger plan.", b.ID,
		(b.DataBytes+1<<20-1)>>20, of.Name, of.MaxStorageMB)
}

// nameOf is the name that the platform gave to an instance, "" if it sent none.
func nameOf(i store.Instance) string {
	var c struct {
		Name string `json:"instance_name"`
	}
	if json.Unmarshal(i.Context, &c) != nil { // platforms may put anything there
		return ""
	}
	return c.Name
}

// Restorer fills a new database from a backup, up to a time if the request names one.
func (bs *Backups) Restorer(id string) copying.Restore {
	return func(ctx context.Context, run *task.Run, f copying.Filling, owner mysqladmin.Account,
		events *transfer.Events) error {
		return filling{f, bs}.restore(ctx, run, id, owner, events)
	}
}

// filling fills a new database from a backup.
type filling struct {
	copying.Filling
	backups *Backups
}

func (f filling) restore(ctx context.Context, run *task.Run, id string, owner mysqladmin.Account,
	events *transfer.Events) error {
	if f.backups.vault == nil {
		return task.RequeueElsewhere(errNoStoreHere)
	}
	of, err := f.Plan(f.Instance.PlanID)
	if err != nil {
		return err
	}
	m, err := f.backups.manifest(ctx, run, id)
	if err != nil {
		return err
	}
	if !f.Parameters.RestoreToTime.IsZero() {
		if err := f.undoReplay(ctx, run, owner); err != nil {
			return err
		}
	}
	err = f.AsOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
		from := mysqladmin.Flavour{Name: m.Flavour, Version: m.Version}
		if err := f.CanHold(ctx, from, fmt.Sprintf("a backup of %s", from)); err != nil {
			return err
		}
		return copying.LeavingOutBroken(run, "", func(leftOut func(string, bool, error) bool) error {
			o := f.OptionsFor(ctx, run, of, "restored", engine.Percent("Restoring the backup"))
			o.Later, o.LeftOut = events, leftOut
			return f.backups.vault.Restore(ctx, m, to, o)
		})
	})
	if err == nil && !f.Parameters.RestoreToTime.IsZero() {
		err = f.replay(ctx, run, of, owner, m, events)
	}
	return f.backups.explainRestore(ctx, run, id, err)
}

// manifest reads the manifest of a backup that is recorded.
func (bs *Backups) manifest(ctx context.Context, run *task.Run, id string) (m backup.Manifest, err error) {
	b, err := bs.Store.Backups.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return m, engine.Fail(run.Task, engine.BackupGone, err)
	}
	if err != nil {
		return m, fmt.Errorf("read the record of the backup: %w", err)
	}
	if bs.vault == nil {
		return m, errNoStoreHere
	}
	if m, err = bs.vault.Manifest(ctx, b.InstanceID, b.ID); err != nil {
		err = bs.explainBackup(ctx, run, id, err)
	}
	return m, err
}

// explainRestore says what users read about the restore of a backup that failed.
func (bs *Backups) explainRestore(ctx context.Context, run *task.Run, id string, err error) error {
	return copying.Failed(ctx, run, err, func(err error) error { return bs.explainBackup(ctx, run, id, err) }, nil)
}

// explainBackup says what users read about a backup that cannot be read. It records that one is damaged, so that the
// next restore of the instance's latest takes an older one.
func (bs *Backups) explainBackup(ctx context.Context, run *task.Run, id string, err error) error {
	if _, damaged := errors.AsType[*backup.DamagedError](err); damaged {
		if recording := bs.Store.Backups.RecordVerification(ctx, id, err.Error()); recording != nil {
			return fmt.Errorf("record that the backup %s is damaged: %w", id, recording)
		}
		return engine.Fail(run.Task, engine.BackupDamaged, err)
	}
	if errors.Is(err, backup.ErrNotFound) {
		return engine.Fail(run.Task, engine.BackupGone, err)
	}
	return explainObjectStore(run, err)
}
