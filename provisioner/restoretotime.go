package provisioner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/archive"
	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/binlog"
	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// markKey is the key under which a task remembers where in an archive of binary logs its backup was taken.
const markKey = "mark"

// mark records in the manifest of a backup where in the archive of the server's binary logs it is taken, if there is
// one.
func (b backingUp) mark(ctx context.Context, admin *mysqladmin.Server, m *backup.Manifest, o *transfer.Options) error {
	if !b.planOf(b.instance).ArchiveLogs || b.instance.Location.Shared() {
		return nil
	}
	has, err := admin.BinaryLogs(ctx)
	if err != nil || !has.On {
		return err
	}
	l, err := archive.Begin(ctx, b.store, b.instance, has)
	if err != nil {
		return fmt.Errorf("record the archive of binary logs: %w", err)
	}
	if l.Server != b.instance.Location.Server {
		return nil
	}
	mark := &backup.Mark{Log: l.ID, Database: b.instance.Database}
	m.BinaryLog = mark
	o.Locked = func(ctx context.Context) error {
		now, err := admin.BinaryLogs(ctx)
		mark.At, mark.Time = now.End, now.Now
		return err
	}
	o.Described = func(ctx context.Context) error {
		now, err := admin.BinaryLogs(ctx)
		mark.Settled = now.End
		return err
	}
	return nil
}

// backupBefore finds the backup from which a restore to a time begins. name is its id, or that of its instance.
func (p *Provisioner) backupBefore(ctx context.Context, of plan.Plan, name string,
	until time.Time) (b store.Backup, err error) {
	if of.Kind != plan.Dedicated {
		return b, refuse(Invalid, "Plan %s cannot restore to a time. Choose a dedicated plan, or leave restore_to_time out.",
			of.Name)
	}
	all, err := p.store.Windows(ctx, name)
	if err != nil {
		return b, fmt.Errorf("list the times to restore to: %w", err)
	}
	if len(all) == 0 {
		return b, refuse(Invalid, "%s cannot be restored to a time: its plan archives no binary logs, or has done so only "+
			"since its latest backup. Leave restore_to_time out to restore a backup.", name)
	}
	for _, w := range all {
		if !until.Before(w.From) && !until.After(w.Until) {
			return p.store.Backup(ctx, w.BackupID)
		}
	}
	return b, refuse(Invalid, "The time %s is not possible. %s can be restored to any time %s.",
		until.Format(time.RFC3339Nano), name, possible(all))
}

// possible says between which times a restore is possible, in full seconds.
func possible(all []store.Window) (text string) {
	for n, w := range Periods(all) {
		if n > 0 {
			text += ", or "
		}
		text += fmt.Sprintf("between %s and %s", w.From.Format(time.RFC3339), w.Until.Format(time.RFC3339))
	}
	return text
}

// Periods joins windows of the same archive. Their ends are rounded to full seconds within them. The latest is first.
func Periods(all []store.Window) (joined []store.Window) {
	for _, w := range all {
		w.From = w.From.Add(time.Second - 1).UTC().Truncate(time.Second)
		w.Until = w.Until.UTC().Truncate(time.Second)
		if last := len(joined) - 1; last >= 0 && joined[last].LogID == w.LogID {
			if w.From.Before(joined[last].From) { // the server's clock may have been set back
				joined[last].From = w.From
			}
			continue
		}
		if !w.Until.Before(w.From) {
			joined = append(joined, w)
		}
	}
	return joined
}

// replaying is the key under which the task remembers that it has begun to change what the backup had.
const replaying = "replaying"

// undoReplay drops the data if an interrupted attempt has replayed changes.
func (f filling) undoReplay(ctx context.Context, run *task.Run, owner mysqladmin.Account) error {
	var begun bool
	if found, err := run.Recall(replaying, &begun); err != nil || !found {
		return err
	}
	return f.asOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
		return transfer.Empty(ctx, to, run.Alive)
	})
}

// replay repeats what was committed after the backup, up to the time to restore to. Until it ends, no event runs.
func (f filling) replay(ctx context.Context, run *task.Run, owner mysqladmin.Account, m backup.Manifest,
	events *transfer.Events) error {
	of, err := f.plan(f.instance.PlanID)
	if err != nil {
		return err
	}
	until := f.parameters.RestoreToTime
	if m.BinaryLog == nil {
		return task.Permanent("The backup does not say where in the binary logs it was taken.", errors.New("no position"))
	}
	recorded, err := f.store.BinaryLog(ctx, m.BinaryLog.Log)
	if errors.Is(err, store.ErrNotFound) {
		return errBackupGone(err)
	}
	if err != nil {
		return fmt.Errorf("read the record of the archive: %w", err)
	}
	if err := errors.Join(run.Remember(replaying, true), run.Save(ctx)); err != nil {
		return err
	}
	return f.fleet.AsAdmin(ctx, f.instance, func(admin *mysqladmin.Server) error {
		return f.asOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
			limits, err := admin.PrepareReplay(ctx)
			if err != nil {
				return err
			}
			defer limits.Close()
			// Their state is what the replay changes; the scheduler is off.
			if err := events.Enable(ctx, to, run.Alive); err != nil {
				return err
			}
			*events = transfer.Events{}
			rows, err := admin.OpenDatabase(f.instance.Database, nil)
			if err != nil {
				return err
			}
			defer rows.Close()
			flavour, err := admin.Flavour(ctx)
			if err != nil {
				return err
			}
			r := &binlog.Replay{Administrator: rows, Owner: to.DB, Source: m.BinaryLog.Database, Target: f.instance.Database,
				MySQL: flavour.Name == mysqladmin.MySQL, Until: until, Settled: m.BinaryLog.Settled, Alive: run.Alive,
				Empty:    func(ctx context.Context) error { return transfer.Empty(ctx, to, run.Alive) },
				Progress: f.replayed(ctx, run, m.BinaryLog.Time, until)}
			defer r.Close()
			if err := f.replayAll(ctx, r, m, recorded); err != nil {
				return err
			}
			return limits.Restore(ctx, mysqld.MaxPacketMB(of.MemoryMB)<<20)
		})
	})
}

// replayed returns a function that reports how far a replay has come.
func (f filling) replayed(ctx context.Context, run *task.Run, from, until time.Time) func(time.Time) {
	report := f.reportProgress(ctx, run, "replayed", percent("Replaying the changes since the backup"))
	total := max(until.Sub(from), time.Second)
	return func(committed time.Time) {
		fault.Point("provision", "replayed")
		report(uint64(min(max(committed.Sub(from), 0), total)), uint64(total))
	}
}

// errGap says that an archive lacks a part or is damaged.
func errGap(of store.BinaryLog, at binlog.Position, err error) error {
	return &transfer.RefusedError{Err: fmt.Errorf("the archive %s lacks what follows %s: %w", of.ID, at, err),
		Sentence: "The archive of binary logs lacks a part, or it is damaged, between the backup and the time to restore " +
			"to. Restore to an earlier time or from a later backup, and tell your operator."}
}

var errMissing = errors.New("it is not in the object store")

// replayAll replays the segments from the position of the backup on.
func (f filling) replayAll(ctx context.Context, r *binlog.Replay, m backup.Manifest, recorded store.BinaryLog) error {
	log, err := f.vault.Log(ctx, m.InstanceID, m.BinaryLog.Log)
	if errors.Is(err, backup.ErrNotFound) && recorded.File == m.BinaryLog.At.File &&
		recorded.Position <= m.BinaryLog.At.Offset { // nothing was written since
		return nil
	}
	if err != nil {
		return &transfer.SourceError{Err: err}
	}
	all, err := f.vault.Segments(ctx, log)
	if err != nil {
		return &transfer.SourceError{Err: err}
	}
	at := m.BinaryLog.At
	end := binlog.Position{File: recorded.File, Offset: recorded.Position}
	if !at.Before(end) {
		return nil
	}
	first := 0
	for first+1 < len(all) && !at.Before(all[first+1]) {
		first++
	}
	if first == len(all) || at.Before(all[first]) {
		return errGap(recorded, at, errMissing)
	}
	if err := r.Begin(ctx, at); err != nil {
		return err
	}
	var failure error
	ended := false
	for n := first; n < len(all) && !ended; n++ {
		segment := all[n]
		reached, _, err := f.vault.ReadSegment(ctx, log, segment, func(head backup.SegmentHead, in io.Reader) error {
			skip := int64(0)
			switch {
			case n == first && segment.File == at.File:
				skip = at.Offset - segment.Offset
				r.Format(head.Format)
			case head.Previous != at:
				failure = errGap(recorded, at, errMissing)
				return failure
			case segment.File != at.File:
				if failure = r.NextFile(segment.File); failure != nil {
					return failure
				}
			}
			if _, err := io.CopyN(io.Discard, in, skip); err != nil {
				failure = errGap(recorded, at, err)
				return failure
			}
			ended, failure = r.Read(ctx, in, binlog.Part{After: head.After, Target: head.Target,
				Until: head.Until})
			return failure
		})
		// First: the replay also fails at the damage, with an error that says less.
		if _, damaged := errors.AsType[*backup.DamagedError](err); damaged {
			return errGap(recorded, at, err)
		}
		if failure != nil {
			return unsupported(failure)
		}
		if err != nil {
			return &transfer.SourceError{Err: err}
		}
		at = reached
	}
	if !ended && at.Before(end) {
		return errGap(recorded, at, errMissing)
	}
	if ended {
		return nil
	}
	return r.End()
}

// unsupported returns what users read if logs cannot be replayed.
func unsupported(err error) error {
	if what, ok := errors.AsType[*binlog.UnsupportedError](err); ok {
		return &transfer.RefusedError{Err: err, Sentence: fmt.Sprintf("The instance cannot be restored to that time: "+
			"the binary log between the backup and that time has %s. Restore to an earlier time, or restore a later backup.",
			what.What)}
	}
	refusal, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return err
	}
	switch refusal.Number {
	case 1205, 1213, 1053, 1317, 1040: // a lock, or the server stops or has no connection: it is tried again
		return err
	}
	return &transfer.RefusedError{Err: err, Sentence: fmt.Sprintf("The server refuses to repeat a change that was made "+
		"between the backup and that time (MySQL error %d). Restore to an earlier time, or restore a later backup.",
		refusal.Number)}
}
