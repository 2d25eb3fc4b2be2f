// Package mark detects that PostgreSQL was restored from a backup, and so is older than what the servers hold. Once a
// minute, one broker writes a mark to each shared server and launcher: the latest task, and the instances whose data
// are there; a launcher keeps each instance beside its server. Brokers compare the marks with PostgreSQL when they
// start, before they change anything on a server, and before each new mark. If PostgreSQL is older than a mark, it is
// held: see store.Hold. A PostgreSQL that was loaded from a dump is detected without marks.
package mark

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/leader"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/periodic"
	"mysql-broker/provisioner/shared"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Config has the dependencies of a keeper.
type Config struct {
	Store  *store.Store
	Fleet  *fleet.Fleet
	Logger *slog.Logger
}

// Keeper compares marks, and writes them from Start to Close.
type Keeper struct {
	Config
	identity string
	cancel   context.CancelFunc
	done     sync.WaitGroup

	writing periodic.Servers

	mu   sync.Mutex
	held bool // as last logged
}

const (
	each = time.Minute // from one mark to the next
	// askTime bounds the comparison with one server, unless its AnswerTime is longer, and writeTime one mark with its
	// list of instances: the first list may have thousands.
	askTime   = 3 * time.Second
	writeTime = 20 * time.Second
	lastTime  = 2 * time.Second // for the last marks, in Close
)

// Start compares the marks of all servers that answer before it returns. The marks of other servers are compared before
// anything is changed there. The caller must close the keeper.
func Start(ctx context.Context, cfg Config) (*Keeper, error) {
	k := &Keeper{Config: cfg, writing: periodic.Servers{Status: periodic.Status{
		What: "writing the high-water mark to a server", Log: cfg.Logger, EachError: true}}}
	m, err := cfg.Store.Recovery.Mark(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the high-water mark: %w", err)
	}
	k.identity = m.Identity
	if err := k.compareAll(ctx); err != nil {
		return nil, err
	}
	cfg.Fleet.Shared.VerifyWith(k.verify)
	cfg.Fleet.VerifyLaunchersWith(k.verifyDedicated)
	cfg.Store.OnFailover(k.failedOver)
	working, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	k.lead(working, "mark", "writing high-water marks", k.writeShared)
	if len(cfg.Fleet.Launchers()) > 0 {
		k.lead(working, "mark of dedicated servers", "writing the high-water mark of dedicated servers", k.writeDedicated)
	}
	return k, nil
}

// lead writes marks each minute, on one broker at a time.
func (k *Keeper) lead(ctx context.Context, lease, what string, to func(context.Context, store.Mark)) {
	work := leader.Work{Store: k.Store, Log: k.Logger, Lease: lease, What: what, Every: each,
		Do: func(ctx context.Context) error { return k.write(ctx, to) }}
	k.done.Go(func() { work.Run(ctx) })
}

// compareAll holds PostgreSQL if a mark is newer. Servers and launchers that do not answer are compared later.
func (k *Keeper) compareAll(ctx context.Context) error {
	if _, err := k.Store.Recovery.HoldRestored(ctx); err != nil {
		return fmt.Errorf("find out whether PostgreSQL was restored: %w", err)
	}
	for _, l := range k.Fleet.Launchers() {
		if err := k.verifyDedicated(ctx, l); err != nil && !errors.Is(err, store.ErrHeld) && ctx.Err() == nil {
			k.Logger.Warn("could not compare PostgreSQL with the high-water mark of a launcher; nothing is done on its "+
				"servers until that works",
				"launcher", l.Name, "error", err)
		}
	}
	var asked sync.WaitGroup
	for _, server := range k.Fleet.Shared.All() {
		asked.Go(func() {
			if err := k.verify(ctx, server, server.Marks); err != nil && !errors.Is(err, store.ErrHeld) && ctx.Err() == nil {
				k.Logger.Warn("could not compare PostgreSQL with the high-water mark on a shared server; "+
					"nothing is done there until that works",
					"server", server.Name(), "error", err)
			}
		})
	}
	asked.Wait()
	return k.reportHold(ctx)
}

// failedOver has the marks compared again: the new primary may lack what other brokers have recorded, too.
func (k *Keeper) failedOver(f store.Failover) {
	k.Fleet.VerifyAgain()
	if f.LostTask == 0 {
		k.Logger.Warn("another PostgreSQL server is the primary now; it has all that this broker has recorded",
			"timeline", f.Timeline)
		return
	}
	k.Logger.Error("another PostgreSQL server is the primary now, and lacks commits of the one before",
		"timeline", f.Timeline, "task", task.Token(f.LostTask))
}

// reportHold logs once that PostgreSQL is held, and once that the hold has ended.
func (k *Keeper) reportHold(ctx context.Context) error {
	held, err := k.Store.Recovery.Hold(ctx)
	if err != nil {
		return fmt.Errorf("read whether PostgreSQL is held: %w", err)
	}
	k.logHold(held)
	return nil
}

func (k *Keeper) logHold(held *store.Hold) {
	k.mu.Lock()
	before := k.held
	k.held = held != nil
	k.mu.Unlock()
	switch {
	case held != nil && !before:
		k.Logger.Error("PostgreSQL is older than the servers: nothing is changed or removed until an operator runs "+
			"`mysql-broker recover`", "since", held.Since, "reason", held.Reason)
	case held == nil && before:
		k.Logger.Info("PostgreSQL is no longer held: operations run again")
	}
}

// verify returns store.ErrHeld if the mark of the server is newer than PostgreSQL.
func (k *Keeper) verify(ctx context.Context, server *shared.Server, from mysqladmin.MarkReader) error {
	ctx, cancel := context.WithTimeout(ctx, max(askTime, server.AnswerTime))
	defer cancel()
	m, _, err := from.ReadMark(ctx, k.identity)
	if err != nil {
		return err
	}
	return k.compare(ctx, "the shared server "+server.Name(), m.TaskID, m.TaskAt)
}

// verifyDedicated returns store.ErrHeld if the mark of the launcher is newer than PostgreSQL.
func (k *Keeper) verifyDedicated(ctx context.Context, l fleet.Launcher) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_, err := k.compareDedicated(ctx, l)
	return err
}

// compareDedicated also returns the note that it has read.
func (k *Keeper) compareDedicated(ctx context.Context, l fleet.Launcher) (content []byte, err error) {
	n, content, err := readNote(ctx, l, k.identity)
	if err != nil {
		return nil, err
	}
	return content, k.compare(ctx, "the launcher's directory", n.TaskID, n.TaskAt)
}

// compare holds PostgreSQL, and returns store.ErrHeld, if PostgreSQL does not know the task of a mark.
func (k *Keeper) compare(ctx context.Context, who string, taskID int64, at time.Time) error {
	if taskID == 0 {
		return nil
	}
	knows, err := k.Store.Tasks.Knows(ctx, taskID, at)
	if err != nil {
		return fmt.Errorf("find task_%d: %w", taskID, err)
	}
	if knows {
		return nil
	}
	reason := fmt.Sprintf("PostgreSQL is older than the servers: %s has a record of task_%d of %s, which "+
		"PostgreSQL does not have.", who, taskID, at.UTC().Format(time.RFC3339))
	if err := k.Store.Recovery.SetHold(ctx, reason, taskID); err != nil {
		return fmt.Errorf("hold PostgreSQL: %w", err)
	}
	return errors.Join(store.ErrHeld, k.reportHold(ctx))
}

// write writes the mark to all servers.
func (k *Keeper) write(ctx context.Context, to func(context.Context, store.Mark)) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	m, err := k.Store.Recovery.Mark(ctx)
	if err != nil {
		return fmt.Errorf("read the high-water mark: %w", err)
	}
	if m.Hold != nil {
		_, err = k.Store.Recovery.HoldRestored(ctx) // records since when it is held
		return errors.Join(err, k.reportHold(ctx))
	}
	k.logHold(nil)
	to(ctx, m)
	return nil
}

// Close stops the keeper, and then writes the marks once more, so that a restore of PostgreSQL while no broker runs is
// detected.
func (k *Keeper) Close() {
	k.cancel()
	k.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	err := k.write(ctx, k.writeShared)
	if len(k.Fleet.Launchers()) > 0 {
		err = errors.Join(err, k.write(ctx, k.writeDedicated))
	}
	if err != nil {
		k.Logger.Warn("could not write the last high-water marks", "error", err)
	}
}

// report logs the error of a server, unless it says that PostgreSQL is held, which reportHold logs.
func (k *Keeper) report(ctx context.Context, server string, err error) {
	if !errors.Is(err, store.ErrHeld) {
		k.writing.Report(ctx, server, err)
	}
}
