// Package archive copies the binary logs of dedicated servers to the object store, so that instances can be restored to
// a time between two backups. One broker at a time does that for all servers. In each round, it reads what a server has
// written since the last round, as a replica does, and then purges the files that are archived.
//
// A segment is named by where it begins, and written only if it does not exist. So a broker that died or was paused
// leaves no gap and no duplicate: the next broker finds its segment and continues after it.
package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/binlog"
	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/leader"
	"mysql-broker/provisioner/memory"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/periodic"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// Config has the dependencies and options of an archiver.
type Config struct {
	Store    *store.Store
	Plans    plan.Set
	Fleet    *fleet.Fleet
	Vault    *backup.Vault
	Logger   *slog.Logger
	Memory   *memory.Budget
	Interval time.Duration // from the start of one round to the start of the next
}

// Archiver archives binary logs from Start to Close.
type Archiver struct {
	Config
	cancel  context.CancelFunc
	done    sync.WaitGroup
	reports periodic.Servers
	ends    ends
}

const (
	// atOnce is how many servers are archived at the same time. Each takes a few MiB of memory if it has new logs.
	atOnce = 4
	// serverTimeout bounds the work on one server in a round. The next round goes on from there.
	serverTimeout = time.Minute
	// tidyInterval is how often archives that no backup needs are deleted.
	tidyInterval = 10 * time.Minute
)

// Start starts an archiver.
func Start(cfg Config) *Archiver {
	a := &Archiver{Config: cfg, reports: periodic.Servers{Status: periodic.Status{
		What: "archiving the binary logs of a server", Log: cfg.Logger}}}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	var tidied time.Time
	a.done.Go(func() {
		leader.Work{Store: cfg.Store, Log: cfg.Logger, Lease: "binary logs", What: "archiving binary logs",
			Every: cfg.Interval, Do: func(ctx context.Context) error {
				err := a.round(ctx)
				if time.Since(tidied) > tidyInterval {
					tidied = time.Now()
					err = errors.Join(err, a.tidy(ctx))
				}
				return err
			}}.Run(ctx)
		if err := a.recordLast(); err != nil {
			cfg.Logger.Warn("could not record in the object store up to when binary logs are archived", "error", err)
		}
	})
	return a
}

// Close stops the archiver.
func (a *Archiver) Close() {
	a.cancel()
	a.done.Wait()
}

// Plans are the ids of the plans whose binary logs are archived.
func Plans(plans plan.Set) []string {
	ids := []string{}
	for _, p := range plans {
		if p.ArchiveLogs {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// round archives what all servers have written. If a server fails, the error is logged, and the round goes on.
func (a *Archiver) round(ctx context.Context) error {
	plans := Plans(a.Plans)
	abandoned, err := a.Store.Logs.Abandoned(ctx, plans)
	if err != nil {
		return fmt.Errorf("list the archives whose servers are gone: %w", err)
	}
	for _, l := range abandoned {
		if err := a.Store.Logs.End(ctx, l.ID, "the server is gone, or its plan has no archive"); err != nil {
			return fmt.Errorf("end the archive %s: %w", l.ID, err)
		}
		a.ends.add(l)
	}
	ids, err := a.Store.Logs.Instances(ctx, plans)
	if err != nil {
		return fmt.Errorf("list the servers to archive: %w", err)
	}
	var servers errgroup.Group
	servers.SetLimit(atOnce)
	for _, id := range ids {
		servers.Go(func() error {
			a.one(ctx, id)
			return nil
		})
	}
	_ = servers.Wait() // a.reports has the errors
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return a.recordOthers(ctx)
}

func (a *Archiver) one(ctx context.Context, id string) {
	i, err := a.Store.Instances.Get(ctx, id)
	if err != nil || i.State != store.Ready || i.Location.Shared() { // it has changed since
		return
	}
	limited, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	err = a.Fleet.AsAdmin(limited, i, func(admin *mysqladmin.Server) error {
		attended, stop := admin.Attend(limited)
		defer stop()
		return a.archive(attended, i, admin)
	})
	if !errors.Is(err, launcher.ErrNotFound) { // it is being deleted
		a.reports.Report(ctx, i.Location.Server, err)
	}
}

// errOff says that a server has no binary logs.
var errOff = errors.New("the server keeps no binary logs: it was created before its plan archived them; update its " +
	"instance to another plan and back")

// Begin returns the growing archive of an instance. If there is none, it begins one where the server's logs end now.
func Begin(ctx context.Context, s *store.Store, i store.Instance, has mysqladmin.BinaryLogs) (store.BinaryLog, error) {
	l, err := s.Logs.Growing(ctx, i.ID)
	if !errors.Is(err, store.ErrNotFound) {
		return l, err
	}
	return s.Logs.Begin(ctx, store.BinaryLog{ID: "l_" + strings.ToLower(rand.Text()), InstanceID: i.ID,
		Server: i.Location.Server, Launcher: i.Location.Launcher, BeginFile: has.End.File, BeginAt: has.End.Offset,
		BeganAt: has.Now})
}

// archive archives what the server has written, and purges what is archived.
func (a *Archiver) archive(ctx context.Context, i store.Instance, admin *mysqladmin.Server) error {
	has, err := admin.BinaryLog.Files(ctx)
	if err != nil {
		return err
	}
	if !has.On {
		// The file that the server begins when it has logs again has the next number, as if there were no gap.
		return errors.Join(errOff, a.Store.Logs.EndOf(ctx, i.ID, "the server keeps no binary logs"))
	}
	l, err := Begin(ctx, a.Store, i, has)
	if err != nil {
		return fmt.Errorf("record the archive: %w", err)
	}
	lacks := func() bool {
		size, there := has.Files[l.File]
		return !there || size < l.Position || l.Server != i.Location.Server
	}
	if lacks() {
		if l, err = a.catchUp(ctx, l); err != nil {
			return err
		}
		if lacks() {
			return a.end(ctx, i, l, lacking(l))
		}
	}
	log, err := a.Vault.OpenLog(ctx, backup.Log{ID: l.ID, InstanceID: l.InstanceID, Server: l.Server, Launcher: l.Launcher,
		Begin: binlog.Position{File: l.BeginFile, Offset: l.BeginAt}, BeganAt: l.BeganAt})
	began := binlog.Position{File: l.File, Offset: l.Position}
	if err == nil {
		l, err = a.copy(ctx, admin, log, l, has)
	}
	if errors.Is(err, backup.ErrOtherFile) {
		return a.end(ctx, i, l, lacking(l))
	}
	if errors.Is(err, binlog.ErrTooLong) { // the file is purged once the server writes to another one
		return a.endAndPurge(ctx, admin, i, l, has, binlog.ErrTooLong.Error())
	}
	if errors.Is(err, memory.ErrTooLarge) {
		return a.endAndPurge(ctx, admin, i, l, has, "the memory of the broker does not suffice for a change")
	}
	if err != nil {
		return errors.Join(err, a.makeRoom(ctx, admin, i, l, has))
	}
	at := binlog.Position{File: l.File, Offset: l.Position}
	if at.Before(has.End) {
		return fmt.Errorf("the server sent its logs up to %s, and they end at %s", at, has.End)
	}
	if err := a.Store.Logs.RecordArchived(ctx, l.ID, has.Now); err != nil {
		return fmt.Errorf("record what is archived: %w", err)
	}
	if has.First != l.File {
		err = admin.BinaryLog.Purge(ctx, l.File)
	}
	return errors.Join(err, a.recordEnd(ctx, log, backup.LogEnd{At: at, Until: has.Now}, at != began))
}

func lacking(l store.BinaryLog) string {
	return fmt.Sprintf("the server lacks %s from %d on", l.File, l.Position)
}

// catchUp records segments that PostgreSQL does not know, because it was restored from an older backup.
func (a *Archiver) catchUp(ctx context.Context, l store.BinaryLog) (store.BinaryLog, error) {
	log, err := a.Vault.Log(ctx, l.InstanceID, l.ID)
	if errors.Is(err, backup.ErrNotFound) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	end, err := End(ctx, *a.Vault, log)
	if err != nil || !(binlog.Position{File: l.File, Offset: l.Position}).Before(end.At) {
		return l, err
	}
	if err := a.Store.Logs.Grow(ctx, l, end.At.File, end.At.Offset, 0, 0); err != nil {
		return l, fmt.Errorf("record how far the archive has come: %w", err)
	}
	l.File, l.Position, l.FileBegan = end.At.File, end.At.Offset, 0
	return l, nil
}

// end ends an archive. The next backup begins another one.
func (a *Archiver) end(ctx context.Context, i store.Instance, l store.BinaryLog, reason string) error {
	a.Logger.Error("an archive of binary logs has ended; the instance can be restored to later times from its next "+
		"backup on", "instance_id", i.ID, "server", i.Location.Server, "archive", l.ID, "reason", reason)
	return a.Store.Logs.End(ctx, l.ID, reason)
}

// endAndPurge ends an archive, and purges the logs that it lacks.
func (a *Archiver) endAndPurge(ctx context.Context, admin *mysqladmin.Server, i store.Instance, l store.BinaryLog,
	has mysqladmin.BinaryLogs, reason string) error {
	if err := a.end(ctx, i, l, reason); err != nil {
		return err
	}
	return admin.BinaryLog.Purge(ctx, has.End.File)
}

// copy writes segments until the archive has everything up to the end that the server reported. It returns the archive
// as it is then.
func (a *Archiver) copy(ctx context.Context, admin *mysqladmin.Server, log backup.Log, l store.BinaryLog,
	has mysqladmin.BinaryLogs) (store.BinaryLog, error) {
	for {
		at := binlog.Position{File: l.File, Offset: l.Position}
		if !at.Before(has.End) {
			return l, nil
		}
		var w *backup.LogWriter
		grow := func(ctx context.Context, end binlog.Position, bytes int64) error {
			fault.Point("archive", "written")
			if err := a.Store.Logs.Grow(ctx, l, end.File, end.Offset, w.FileBegan, bytes); err != nil {
				return fmt.Errorf("record a segment: %w", err)
			}
			l.File, l.Position, l.FileBegan = end.File, end.Offset, w.FileBegan
			return nil
		}
		var err error
		w, err = backup.NewLogWriter(*a.Vault, log, at, l.Until, has.End, has.Now, grow)
		if err != nil {
			return l, err
		}
		w.FileBegan = l.FileBegan
		w.Reserve = func(ctx context.Context, bytes int64) (func(), error) {
			return a.Memory.Reserve(ctx, bytes, func() error { return nil })
		}
		err = admin.BinaryLog.Dump(ctx, at, w)
		if err == nil {
			err = w.Flush(ctx)
		}
		w.Close()
		if !errors.Is(err, backup.ErrArchived) {
			return l, err
		}
		// Another broker wrote this segment, and died before it recorded that, or PostgreSQL was restored.
		end, head, err := a.Vault.ReadSegment(ctx, log, w.At, nil)
		if err != nil {
			return l, err
		}
		if head.Previous != w.Head.Previous {
			return l, fmt.Errorf("the segment at %s follows on %s and not on %s", w.At, head.Previous, w.Head.Previous)
		}
		if err := grow(ctx, end, 0); err != nil {
			return l, err
		}
	}
}

// leastRoom is how much disk unarchived binary logs may take at least, even if the plan is small.
const leastRoom = 256 << 20

// purgeTimeout bounds makeRoom, which often runs when the time of the round is used up.
const purgeTimeout = 10 * time.Second

// makeRoom purges logs that could not be archived before they fill the server's disk.
func (a *Archiver) makeRoom(ctx context.Context, admin *mysqladmin.Server, i store.Instance, l store.BinaryLog,
	has mysqladmin.BinaryLogs) error {
	room := max(leastRoom, a.Plans.Get(i.PlanID).Quota()/4)
	if fault.ArchiveRoom > 0 {
		room = fault.ArchiveRoom
	}
	if has.Bytes <= room || l.File == has.End.File && has.First == l.File {
		return nil
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return nil // the server is silent, or the broker stops or is no longer the one that archives
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), purgeTimeout)
	defer cancel()
	now, err := a.Store.Logs.Growing(ctx, i.ID)
	if err != nil || now.ID != l.ID || now.File != l.File || now.Position != l.Position {
		return err // another broker goes on with it
	}
	if l.File == has.End.File { // the earlier ones are of an archive that has ended
		return admin.BinaryLog.Purge(ctx, l.File)
	}
	return a.endAndPurge(ctx, admin, i, l, has, "the logs could not be archived, and filled the server's disk")
}

// tidy deletes what no backup needs.
func (a *Archiver) tidy(ctx context.Context) error {
	all, err := a.Store.Logs.Needed(ctx)
	if err != nil {
		return fmt.Errorf("list the archives: %w", err)
	}
	var failed error
	for _, n := range all {
		if err := a.tidyOne(ctx, n); err != nil {
			failed = errors.Join(failed, fmt.Errorf("tidy the archive %s: %w", n.ID, err))
		}
	}
	return failed
}

func (a *Archiver) tidyOne(ctx context.Context, n store.LogNeeded) error {
	l := n.BinaryLog
	if !n.Needed {
		if n.EndedAgo < tidyInterval { // a backup may be about to need it
			return nil
		}
		if err := a.Vault.DeleteLog(ctx, l.InstanceID, l.ID); err != nil {
			return err
		}
		return a.Store.Logs.Forget(ctx, l.ID)
	}
	log, err := a.Vault.Log(ctx, l.InstanceID, l.ID)
	if errors.Is(err, backup.ErrNotFound) { // nothing was archived yet
		return nil
	}
	if err != nil {
		return err
	}
	return a.Vault.DeleteSegmentsBefore(ctx, log, binlog.Position{File: n.FirstFile, Offset: n.FirstPosition})
}
