package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/binlog"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/memory"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// replaying says that the task has begun to change what the backup had.
const replaying task.Key[bool] = "replaying"

// undoReplay drops the data if an interrupted attempt has replayed changes.
func (f filling) undoReplay(ctx context.Context, run *task.Run, owner mysqladmin.Account) error {
	if begun, _, err := replaying.Recall(run); err != nil || !begun {
		return err
	}
	return f.AsOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
		return transfer.Empty(ctx, to, run.Alive)
	})
}

// replay repeats what was committed after the backup, up to the time to restore to. Until it ends, no event runs.
func (f filling) replay(ctx context.Context, run *task.Run, of plan.Plan, owner mysqladmin.Account, m backup.Manifest,
	events *transfer.Events) error {
	until := f.Parameters.RestoreToTime
	if m.BinaryLog == nil {
		return engine.Fail(run.Task, engine.BackupWithoutPosition, errors.New("no position"))
	}
	recorded, err := f.Store.Logs.Get(ctx, m.BinaryLog.Log)
	if errors.Is(err, store.ErrNotFound) {
		return engine.Fail(run.Task, engine.BackupGone, err)
	}
	if err != nil {
		return fmt.Errorf("read the record of the archive: %w", err)
	}
	if err := replaying.Save(ctx, run, true); err != nil {
		return err
	}
	return f.Fleet.AsAdmin(ctx, f.Instance, func(admin *mysqladmin.Server) error {
		return f.AsOwner(ctx, run, owner, func(ctx context.Context, to transfer.Target) error {
			limits, err := admin.BinaryLog.PrepareReplay(ctx)
			if err != nil {
				return err
			}
			defer limits.Close()
			// Their state is what the replay changes; the scheduler is off.
			if err := events.Enable(ctx, to, run.Alive); err != nil {
				return err
			}
			*events = transfer.Events{}
			rows, err := admin.OpenDatabase(f.Instance.Database, nil)
			if err != nil {
				return err
			}
			defer rows.Close()
			flavour, err := admin.Flavour(ctx)
			if err != nil {
				return err
			}
			r := &binlog.Replay{Administrator: rows, Owner: to.DB, Source: m.BinaryLog.Database, Target: f.Instance.Database,
				MySQL: flavour.Name == mysqladmin.MySQL, Until: until, Settled: m.BinaryLog.Settled, Alive: run.Alive,
				Empty:    func(ctx context.Context) error { return transfer.Empty(ctx, to, run.Alive) },
				Reserve:  f.Reserve(run),
				Progress: f.replayed(ctx, run, m.BinaryLog.Time, until)}
			defer r.Close()
			if err := f.replayAll(ctx, r, m, recorded); err != nil {
				return err
			}
			if err := r.AdvanceSequences(ctx); err != nil {
				return err
			}
			return limits.Restore(ctx, mysqld.MaxPacketMB(of.MemoryMB)<<20)
		})
	})
}

// replayed returns a function that reports how far a replay has come.
func (f filling) replayed(ctx context.Context, run *task.Run, from, until time.Time) func(time.Time) {
	report := f.ReportProgress(ctx, run, "replayed", engine.Percent("Replaying the changes since the backup"))
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
	at, end := m.BinaryLog.At, binlog.Position{File: recorded.File, Offset: recorded.Position}
	if !at.Before(end) { // nothing was written since
		return nil
	}
	log, err := f.backups.vault.Log(ctx, m.InstanceID, m.BinaryLog.Log)
	if err != nil {
		return &transfer.SourceError{Err: err}
	}
	segments, err := f.backups.vault.Segments(ctx, log)
	if err != nil {
		return &transfer.SourceError{Err: err}
	}
	segments = since(segments, at)
	if len(segments) == 0 {
		return errGap(recorded, at, errMissing)
	}
	if err := r.Begin(ctx, at); err != nil {
		return err
	}
	s := segmentReplay{Replay: r, vault: f.backups.vault, log: log, recorded: recorded, at: at}
	for n, segment := range segments {
		if ended, err := s.replay(ctx, segment, n == 0); ended || err != nil {
			return err
		}
	}
	if s.at.Before(end) {
		return errGap(recorded, s.at, errMissing)
	}
	return r.End()
}

// since returns the segments from the one that has a position on; none if that one is not there.
func since(segments []binlog.Position, at binlog.Position) []binlog.Position {
	after := slices.IndexFunc(segments, at.Before)
	switch {
	case after == 0 || len(segments) == 0:
		return nil
	case after < 0:
		after = len(segments)
	}
	return segments[after-1:]
}

// segmentReplay replays one segment of an archive after another.
type segmentReplay struct {
	*binlog.Replay
	vault    *backup.Vault
	log      backup.Log
	recorded store.BinaryLog
	at       binlog.Position // up to here it has replayed
}

// replay replays a segment, the first one from the middle on. It says whether the time to restore to was reached.
func (s *segmentReplay) replay(ctx context.Context, segment binlog.Position, first bool) (ended bool, err error) {
	var failure error // of the replay; the vault's own are of the archive
	reached, _, err := s.vault.ReadSegment(ctx, s.log, segment, func(head backup.SegmentHead, in io.Reader) error {
		ended, failure = s.read(ctx, segment, first, head, in)
		return failure
	})
	// First: the replay also fails at the damage, with an error that says less.
	if _, damaged := errors.AsType[*backup.DamagedError](err); damaged {
		return false, errGap(s.recorded, s.at, err)
	}
	if failure != nil {
		return false, unsupported(failure)
	}
	if err != nil {
		return false, &transfer.SourceError{Err: err}
	}
	s.at = reached
	return ended, nil
}

// read replays what a segment has after the position that was reached.
func (s *segmentReplay) read(ctx context.Context, segment binlog.Position, first bool, head backup.SegmentHead,
	in io.Reader) (ended bool, err error) {
	switch {
	case first && segment.File == s.at.File:
		s.Format(head.Format)
		if _, err := io.CopyN(io.Discard, in, s.at.Offset-segment.Offset); err != nil {
			return false, errGap(s.recorded, s.at, err)
		}
	case head.Previous != s.at:
		return false, errGap(s.recorded, s.at, errMissing)
	case segment.File != s.at.File:
		if err := s.NextFile(segment.File); err != nil {
			return false, err
		}
	}
	return s.Read(ctx, in, binlog.Part{After: head.After, Target: head.Target, Until: head.Until})
}

// lastTime says what can be restored of a log in which a transaction cannot be repeated.
func lastTime(committed time.Time) string {
	if committed.IsZero() {
		return ""
	}
	// Times of MariaDB are whole seconds.
	last := committed.UTC().Truncate(time.Second).Add(-time.Second)
	return "to " + last.Format(time.RFC3339) + " or earlier, or restore "
}

// unsupported returns what users read if logs cannot be replayed.
func unsupported(err error) error {
	if what, ok := errors.AsType[*binlog.UnsupportedError](err); ok {
		return &transfer.RefusedError{Err: err, Sentence: fmt.Sprintf("The instance cannot be restored to that time: "+
			"the binary log between the backup and that time has %s. Restore %sa later backup.", what.What, lastTime(what.At))}
	}
	if errors.Is(err, memory.ErrTooLarge) {
		return &transfer.RefusedError{Err: err, Sentence: "The instance cannot be restored to that time: repeating a " +
			"change that was made between the backup and that time takes more memory than the broker has. Ask your " +
			"operator to give the broker more memory, or restore to an earlier time, or restore a later backup."}
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
