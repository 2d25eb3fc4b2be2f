package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// backupToRestore finds the backup that a request names with restore_from. What is not there and what belongs to
// somebody else gets the same answer.
func (p *Provisioner) backupToRestore(ctx context.Context, q ProvisionRequest) (b store.Backup, err error) {
	if p.vault == nil {
		return b, errNoBackups
	}
	name := q.Parameters.RestoreFrom
	b, err = p.store.FindBackup(ctx, name)
	if until := q.Parameters.RestoreToTime; err == nil && !until.IsZero() {
		by, of := tenantOf(q.OrganizationGUID, q.SpaceGUID, q.Context), tenant{b.Platform, b.OrganizationGUID, b.SpaceGUID}
		if by.mayUse(of, q.Plan, p.plans.Get(b.PlanID)) {
			b, err = p.backupBefore(ctx, q.Plan, name, until)
			if refusal, ok := errors.AsType[*Error](err); ok {
				return b, refusal
			}
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return b, fmt.Errorf("look for the backup: %w", err)
	}
	by, of := tenantOf(q.OrganizationGUID, q.SpaceGUID, q.Context), tenant{b.Platform, b.OrganizationGUID, b.SpaceGUID}
	if err != nil || !by.mayUse(of, q.Plan, p.plans.Get(b.PlanID)) {
		return b, noBackup(name)
	}
	return b, backupFits(b, q.Plan)
}

// noBackup refuses a request that names a backup which does not exist or belongs to another tenant.
func noBackup(name string) error {
	return refuse(Invalid, "There is no backup %s in this space.", name)
}

// backupFits refuses a backup of more data than a plan allows.
func backupFits(b store.Backup, of plan.Plan) error {
	if b.DataBytes <= of.Quota() {
		return nil
	}
	return refuse(Invalid, "The backup %s has %d MiB and plan %s allows %d MiB. Choose a larger plan.", b.ID,
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

// restore fills the database from a backup. It sets the events that are to run once the database is filled.
func (f filling) restore(ctx context.Context, run *task.Run, of plan.Plan, owner mysqladmin.Account,
	events *transfer.Events) error {
	if f.vault == nil {
		return task.RequeueElsewhere(errNoStoreHere)
	}
	b, err := f.store.Backup(ctx, f.backup)
	if errors.Is(err, store.ErrNotFound) {
		return errBackupGone(err)
	}
	if err != nil {
		return fmt.Errorf("read the record of the backup: %w", err)
	}
	m, err := f.vault.Manifest(ctx, b.InstanceID, b.ID)
	if err != nil {
		return f.explainBackup(ctx, run, b.ID, err)
	}
	if !f.parameters.RestoreToTime.IsZero() {
		if err := f.undoReplay(ctx, run, owner); err != nil {
			return err
		}
	}
	err = f.asOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
		from := mysqladmin.Flavour{Name: m.Flavour, Version: m.Version}
		if _, err := f.canHold(ctx, from, fmt.Sprintf("a backup of %s", from)); err != nil {
			return err
		}
		return leavingOutBroken(run, "", func(leftOut func(string, bool, error) bool) error {
			return f.vault.Restore(ctx, m, to, transfer.Options{Events: of.Events, Later: events, Alive: run.Alive,
				MaxBytes: 4*of.Quota() + 64<<20, LeftOut: leftOut,
				Progress: f.reportProgress(ctx, run, "restored", percent("Restoring the backup"))})
		})
	})
	if err == nil && !f.parameters.RestoreToTime.IsZero() {
		err = f.replay(ctx, run, owner, m, events)
	}
	return f.explainRestore(ctx, run, b.ID, err)
}

// leavingOutBroken runs a copy or a restore that leaves out the programs that were broken in the source, as they cannot
// be created. The task names them at its end.
func leavingOutBroken(run *task.Run, before string, fill func(leftOut func(string, bool, error) bool) error) error {
	var all []string
	err := fill(func(program string, broken bool, _ error) bool {
		if broken {
			all = append(all, program)
		}
		return broken
	})
	if err != nil {
		return err
	}
	sentence := before
	if len(all) > 0 {
		sentence += " Left out, because it uses something that was not there when the data were read: " +
			strings.Join(all, ", ") + "."
	}
	return run.Advise(strings.TrimSpace(sentence))
}

// explainRestore says what users read about the restore of a backup that failed.
func (p *Provisioner) explainRestore(ctx context.Context, run *task.Run, id string, err error) error {
	refusal, isRefused := errors.AsType[*transfer.RefusedError](err)
	_, ofBackup := errors.AsType[*transfer.SourceError](err)
	switch {
	case err == nil || ctx.Err() != nil || run.Alive() != nil:
		return err
	case isRefused:
		return task.Permanent(refusal.Sentence, err)
	case ofBackup:
		return p.explainBackup(ctx, run, id, err)
	}
	return err
}

// explainBackup says what users read about a backup that cannot be read. It records that one is damaged, so that the
// next restore of the instance's latest takes an older one.
func (p *Provisioner) explainBackup(ctx context.Context, run *task.Run, id string, err error) error {
	if _, damaged := errors.AsType[*backup.DamagedError](err); damaged {
		if noting := p.store.NoteVerification(ctx, id, err.Error()); noting != nil {
			return fmt.Errorf("record that the backup %s is damaged: %w", id, noting)
		}
		return task.Permanent(fmt.Sprintf("The backup is damaged. Restore another one, and tell your operator about %s.",
			task.Token(run.Task.ID)), err)
	}
	if errors.Is(err, backup.ErrNotFound) {
		return errBackupGone(err)
	}
	return explainObjectStore(run, err)
}

func errBackupGone(err error) error {
	return task.Permanent("The backup is gone. Restore another one.", err)
}
