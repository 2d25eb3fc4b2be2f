package backups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// BackUpDue is the kind of the task that begins the backups that are due by the schedules of the plans. It looks every
// ten minutes.
const BackUpDue = "back-up-due"

// PurgeBackups is the kind of the hourly task that deletes backups whose days are over, and what unfinished ones left.
const PurgeBackups = "purge-backups"

// backupsAtOnce is how many backups are written at the same time, those of developers included, before none is begun by
// the schedule.
const backupsAtOnce = 3

// BackupSchedules are those of the plans that have one.
func BackupSchedules(plans plan.Set) (all []store.BackupSchedule) {
	for _, p := range plans {
		if p.Backups.EveryHours > 0 {
			all = append(all, store.BackupSchedule{PlanID: p.ID, Every: time.Duration(p.Backups.EveryHours) * time.Hour})
		}
	}
	return all
}

var backUpDueKind = engine.Scheduled(10*time.Minute,
	task.Step{Name: "begin backups", Progress: "Beginning the backups that are due"}, (*Backups).backUpDue)

func (bs *Backups) backUpDue(ctx context.Context, run *task.Run) error {
	schedules := BackupSchedules(bs.Plans)
	if bs.vault == nil || len(schedules) == 0 {
		return nil
	}
	due, err := bs.Store.Backups.Due(ctx, schedules, backupsAtOnce)
	if err != nil {
		return fmt.Errorf("list the instances whose backups are due: %w", err)
	}
	for _, id := range due {
		if err := run.Alive(); err != nil {
			return err
		}
		_, err := recordBackup(ctx, bs.Store, bs.Plans, id, onSchedule)
		if _, notNow := errors.AsType[engine.NotNowError](err); err != nil && !notNow {
			return fmt.Errorf("record a backup of instance %q: %w", id, err)
		}
		bs.Tasks.Nudge()
	}
	return nil
}

// BackUpNow records a task that backs up an instance, for any broker. The errors are those of
// engine.Record.
func BackUpNow(ctx context.Context, s *store.Store, plans plan.Set, instanceID string) (store.Task, error) {
	return recordBackup(ctx, s, plans, instanceID, byOperator)
}

func recordBackup(ctx context.Context, s *store.Store, plans plan.Set, instanceID, reason string) (store.Task, error) {
	return engine.Record(ctx, s, instanceID, engine.Beside{Bindings: true},
		func(tx *store.Tx, i store.Instance) (store.NewTask, error) {
			n, _ := Insert(tx, plans, i, reason)
			return n, nil
		})
}

var purgeBackupsKind = engine.Scheduled(time.Hour, task.Step{Name: "delete backups",
	Progress: "Deleting backups whose days are over", Timeout: steps.DropTimeout}, (*Backups).purgeBackups)

// purgeBackups deletes all backups that are due by PostgreSQL's clock, even if some of them cannot be deleted.
func (bs *Backups) purgeBackups(ctx context.Context, run *task.Run) error {
	if bs.vault == nil {
		return nil
	}
	due, err := bs.Store.Backups.Expired(ctx)
	if err != nil {
		return fmt.Errorf("list the backups that are due: %w", err)
	}
	if err := bs.SureOfAges(ctx, len(due)); err != nil {
		return err
	}
	return engine.ForEach(run, due, func(b store.Backup) error {
		if err := bs.purgeBackup(ctx, b); err != nil {
			return fmt.Errorf("delete the backup %s: %w", b.ID, err)
		}
		return nil
	})
}

// purgeBackup deletes a backup, unless its manifest says that its days are not over: then the record was wrong.
func (bs *Backups) purgeBackup(ctx context.Context, b store.Backup) error {
	m, err := bs.vault.Manifest(ctx, b.InstanceID, b.ID)
	switch {
	case errors.Is(err, backup.ErrNotFound):
	case err != nil:
		return err
	case b.State == store.BackupComplete && m.KeepUntil.After(b.KeepUntil.Add(time.Minute)):
		return bs.Store.Backups.Keep(ctx, b.ID, m.KeepUntil)
	}
	err = bs.Store.Backups.BeginDeletion(ctx, b.ID)
	if errors.Is(err, store.ErrNotFound) { // a task uses it
		return nil
	}
	if err == nil {
		err = bs.vault.Delete(ctx, b.InstanceID, b.ID)
	}
	if err != nil {
		return err
	}
	bs.Log.Info("deleted a backup", "backup", b.ID, "instance_id", b.InstanceID)
	return bs.Store.Backups.EndDeletion(ctx, b.ID)
}

// MarkOf returns where in an archive of binary logs a backup was taken. Its manifest must have that position.
func MarkOf(m backup.Manifest) store.BackupPosition {
	return store.BackupPosition{BackupID: m.ID, LogID: m.BinaryLog.Log, File: m.BinaryLog.At.File,
		Position: m.BinaryLog.At.Offset, TakenAt: m.BinaryLog.Time}
}

// RecordOf is the record of a complete backup with that manifest.
func RecordOf(m backup.Manifest) store.Backup {
	return store.Backup{ID: m.ID, InstanceID: m.InstanceID, InstanceName: m.InstanceName, ServiceID: m.ServiceID,
		PlanID: m.PlanID, Platform: m.Platform, OrganizationGUID: m.Organization, SpaceGUID: m.Space, Reason: m.Reason,
		State: store.BackupComplete, Flavour: m.Flavour, Version: m.Version, TakenAt: &m.TakenAt, FinishedAt: &m.FinishedAt,
		KeepUntil: m.KeepUntil, DataBytes: m.DataBytes, Bytes: m.Bytes, Tables: int64(m.Tables), Rows: m.Rows}
}
