package backups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// VerifyBackups is the kind of the hourly task that restores backups into a scratch database, compares every chunk with
// the checksums of the manifest, and drops the database. Of all brokers, one does that at a time.
const VerifyBackups = "verify-backups"

var verifyBackupsKind = engine.Kind[*Backups]{
	Kind: task.Kind{Schedule: store.Schedule{Every: time.Hour}},
	Workflow: func(_ context.Context, bs *Backups, _ store.Task) (task.Workflow, error) {
		return task.Workflow{Steps: []task.Step{{Name: "verify", Progress: "Verifying backups", Timeout: backupTimeout,
			Do: bs.verifyBackups}}, Cleanup: []task.Step{bs.dropScratchStep()}}, nil
	},
}

func (bs *Backups) dropScratchStep() task.Step {
	return task.Step{Name: "drop scratch", Progress: "Dropping the scratch database", Timeout: steps.DropTimeout,
		Do: bs.dropScratch}
}

// scratch is a database in which a backup is verified. The task remembers it before it is created.
type scratch struct {
	Location   store.Location
	InstanceID string // of the backup
	Database   string
}

const scratchKey task.Key[scratch] = "scratch"

func (s scratch) instance() store.Instance {
	return store.Instance{ID: s.InstanceID, Location: s.Location, Database: s.Database}
}

func (s scratch) owner() string { return copying.CopyAccount(s.instance(), "owner") }

// verifyBackups verifies all backups that were not verified, even if some of them cannot be.
func (bs *Backups) verifyBackups(ctx context.Context, run *task.Run) error {
	if bs.vault == nil {
		return nil
	}
	if err := bs.dropScratch(ctx, run); err != nil { // of an attempt that was interrupted
		return err
	}
	all, err := bs.Store.Backups.Unverified(ctx)
	if err != nil {
		return fmt.Errorf("list the backups to verify: %w", err)
	}
	var failed []error
	for _, b := range all {
		if err := run.Alive(); err != nil {
			return err
		}
		err := bs.copier.WithMemory(ctx, run, func() error { return bs.verifyBackup(ctx, run, b) })
		if dropping := bs.dropScratch(ctx, run); dropping != nil {
			return errors.Join(err, dropping)
		}
		if err := bs.recordVerification(ctx, b, err); err != nil {
			failed = append(failed, err)
			continue
		}
		if err := run.Advance(ctx, "Verified backup "+b.ID); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// recordVerification records how the verification of a backup ended. It returns an error if that says nothing about the
// backup.
func (bs *Backups) recordVerification(ctx context.Context, b store.Backup, err error) error {
	log, record := bs.Log.With("backup", b.ID, "instance_id", b.InstanceID), bs.Store.Backups.RecordVerification
	problem := problemOf(err)
	switch {
	case err == nil:
		log.Info("verified a backup")
	case problem != "":
		log.Error("a backup cannot be restored", "error", err)
	case bySettings(err):
		log.Warn("a backup cannot be verified on a server with these settings; retrying in a day; see "+
			"docs/runbook.md#mysqlbrokerbackupstooold", "error", err)
		record, problem = bs.Store.Backups.RecordRefusal, err.Error()
	default:
		return fmt.Errorf("verify the backup %s: %w", b.ID, engine.OfOther(err))
	}
	if err := record(ctx, b.ID, problem); err != nil {
		return fmt.Errorf("record the verification of the backup %s: %w", b.ID, err)
	}
	return nil
}

// verify verifies the backup that the task has written, unless that is left to the hourly task: a backup of the
// schedule, and one that cannot be verified now. Only a backup that cannot be restored is a failure.
func (b backingUp) verify(ctx context.Context, run *task.Run) error {
	recorded, err := b.Store.Backups.Get(ctx, b.id)
	if err != nil {
		return fmt.Errorf("read the record of the backup: %w", err)
	}
	if recorded.Reason == onSchedule || b.Plans.Get(b.instance.PlanID).Backups.VerifyLater {
		return run.Advise(verifiedLater)
	}
	if err := b.dropScratch(ctx, run); err != nil { // of an attempt that was interrupted
		return err
	}
	err = b.verifyBackup(ctx, run, recorded)
	if ctx.Err() != nil || run.Alive() != nil {
		return err
	}
	recording := b.recordVerification(ctx, recorded, err)
	switch {
	case problemOf(err) != "" && recording == nil:
		return engine.Fail(run.Task, engine.BackupUseless, err, b.id)
	case err == nil && recording == nil:
		return run.Advise("It was restored once, as a test, and has the data.")
	case recording != nil:
		b.Log.Warn("a backup could not be verified yet", "backup", b.id, "instance_id", b.instance.ID, "error", recording)
	}
	return run.Advise("It could not be restored as a test yet. " + verifiedLater)
}

const verifiedLater = "It is restored as a test by the hourly verification. Until then, restore_from with the id of " +
	"the service instance does not mean this backup."

// problemOf says why a backup cannot be restored. It is "" if err is not due to the backup: settings of shared servers
// can forbid what the instance's own server allows.
func problemOf(err error) string {
	_, damaged := errors.AsType[*backup.DamagedError](err)
	_, refused := errors.AsType[*transfer.RefusedError](err)
	if damaged || refused && !bySettings(err) || errors.Is(err, backup.ErrNotFound) ||
		errors.Is(err, transfer.ErrDiffers) {
		return err.Error()
	}
	return ""
}

// bySettings reports whether settings of the server refuse a backup. Until they are changed, each attempt reads the
// backup in vain, so that it is made once a day.
func bySettings(err error) bool {
	refusal, refused := errors.AsType[*transfer.RefusedError](err)
	return refused && refusal.BySettings
}

func (bs *Backups) verifyBackup(ctx context.Context, run *task.Run, b store.Backup) error {
	m, err := bs.vault.Manifest(ctx, b.InstanceID, b.ID)
	if err != nil {
		return err
	}
	server, err := bs.serverFor(ctx, mysqladmin.Flavour{Name: m.Flavour, Version: m.Version})
	if err != nil {
		return err
	}
	s := scratch{store.SharedLocation(server), b.InstanceID, engine.NewName(mysqladmin.DatabasePrefix)}
	if err := scratchKey.Save(ctx, run, s); err != nil {
		return err
	}
	lease := engine.LeaseOf(run.Task)
	if err := bs.Store.Backups.RecordScratch(ctx, lease, server, s.Database, s.owner(), b.InstanceID); err != nil {
		return fmt.Errorf("record the scratch database: %w", err)
	}
	owner := mysqladmin.Account{Name: s.owner(), Password: engine.NewPassword(), Database: s.Database, Role: plan.Admin,
		Events: true}
	f := copying.Filling{Copier: bs.copier, Instance: s.instance(), Lock: scratchLock}
	err = bs.InSession(f.Instance, f.Lock, func(ctx context.Context, _ *task.Run, session *mysqladmin.Session) error {
		if err := session.Databases.Create(ctx, s.Database, "", ""); err != nil {
			return err
		}
		return session.Accounts.Create(ctx, owner)
	})(ctx, run)
	if err != nil {
		return err
	}
	err = f.AsOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
		o := bs.copier.Options(ctx, run, "verified", engine.Percent("Verifying backup "+b.ID))
		o.Events, o.Unpartitioned = true, true
		o.LeftOut = func(_ string, broken bool, _ error) bool { return broken }
		return bs.vault.Restore(ctx, m, to, o)
	})
	if bySettings(err) {
		err = fmt.Errorf("shared server %s: %w", server, err) // operators have to change its settings
	}
	return err
}

// scratchLock is held while a scratch database is created or dropped.
var scratchLock = fleet.Lock{Key: "scratch databases of backups"}

// serverFor finds a shared server that can hold what one of that flavour has written.
func (bs *Backups) serverFor(ctx context.Context, from mysqladmin.Flavour) (name string, err error) {
	var failed error
	for _, server := range bs.Fleet.Shared.All() {
		to, err := server.Flavour(ctx)
		if err == nil && to.CanTake(from) {
			return server.Name(), nil
		}
		failed = errors.Join(failed, err)
	}
	return "", errors.Join(fmt.Errorf("no shared server can hold a backup of %s", from), failed)
}

// dropScratch drops the scratch database that the task remembers, and its account.
func (bs *Backups) dropScratch(ctx context.Context, run *task.Run) error {
	s, _, err := scratchKey.Recall(run)
	if err != nil || s.Database == "" {
		return err
	}
	if err := bs.drop(ctx, run, s); err != nil {
		return err
	}
	return scratchKey.Save(ctx, run, scratch{})
}

func (bs *Backups) drop(ctx context.Context, run *task.Run, s scratch) error {
	return bs.InSession(s.instance(), scratchLock,
		func(ctx context.Context, _ *task.Run, session *mysqladmin.Session) error {
			return dropWithOwner(ctx, session, s.Database, s.owner())
		})(ctx, run)
}

// dropWithOwner drops a database that only the owner has filled, and the owner.
func dropWithOwner(ctx context.Context, s *mysqladmin.Session, database, owner string) error {
	if err := s.Accounts.Lock(ctx, owner); err != nil { // ends its sessions
		return err
	}
	if err := s.Databases.Drop(ctx, database); err != nil {
		return err
	}
	return s.Accounts.Drop(ctx, owner)
}

// DropLeft returns a step that drops the databases which backups and restores of an instance have left on shared
// servers, whose tasks were cancelled because the instance is being deleted.
func (bs *Backups) DropLeft(i store.Instance) task.Step {
	return task.Step{Name: "drop left", Progress: "Dropping what a backup or a restore has left",
		Timeout: steps.DropTimeout,
		Do: func(ctx context.Context, run *task.Run) error {
			for _, kind := range []string{store.BackUp, store.Restore} {
				t, err := bs.Store.Tasks.Latest(ctx, i.ID, "", kind)
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				s, _, recalling := scratchKey.In(t.Memory)
				b, _, recallingBeside := besideKey.In(t.Memory)
				if err := errors.Join(err, recalling, recallingBeside); err != nil {
					return fmt.Errorf("list what a task has left: %w", err)
				}
				for _, left := range []scratch{s, {i.Location, i.ID, b.Filled}, {i.Location, i.ID, b.Kept}} {
					if left.Database == "" || left.Location.Dedicated() {
						continue
					}
					if err := bs.drop(ctx, run, left); err != nil {
						return err
					}
				}
			}
			return nil
		}}
}
