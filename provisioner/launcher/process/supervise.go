package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/process/files"
	"mysql-broker/provisioner/periodic"
)

const (
	standbyInterval = time.Second      // how often a broker tries to become the one that supervises
	surveyInterval  = 2 * time.Second  // how often servers launched by other brokers are looked for
	busyInterval    = time.Second      // how often a server's lock is tried that another process holds
	turnTime        = 10 * time.Second // how long a starting server may delay the next one
	minBackoff      = time.Second      // before a server that died is started again
	maxBackoff      = 60 * time.Second // longest pause; a server that ran for longer starts again at minBackoff
)

// errRetired is returned for a server that must not be kept running, or no longer.
var errRetired = errors.New("server is not to be kept running")

// supervisor keeps the servers of the directory running.
type supervisor struct {
	run  *runner
	keys *keys

	supervises atomic.Bool // this broker is the supervisor of the directory
	settled    sync.Map    // ids of servers that were up or failed to start since supervision began

	stop    context.CancelFunc
	running sync.WaitGroup
}

// begin starts the supervision, which restarts every launched server that is found dead, unless another broker
// supervises the directory already.
func (sup *supervisor) begin() error {
	ctx, cancel := context.WithCancel(context.Background())
	sup.stop = cancel
	if sup.run.cfg.Authority != nil {
		if err := sup.keys.load(ctx); err != nil {
			cancel()
			return fmt.Errorf("the CA of dedicated servers: %w", err)
		}
		sup.running.Go(func() { sup.keys.follow(ctx) })
	}
	cfg := sup.run.cfg
	cfg.Logger.Info("supervising dedicated servers", "flavour", cfg.Binary.Flavour, "version", cfg.Binary.Version,
		"dir", cfg.Dir)
	sup.run.logMemoryLimit()
	if err := sup.run.groups.Sweep(sup.run.place.list); err != nil {
		cfg.Logger.Warn("could not remove control groups of destroyed servers", "error", err)
	}
	sup.running.Go(func() { sup.supervise(ctx) })
	return nil
}

// supervise waits until this is the only supervisor of the state directory, and then restarts servers that died, until
// the context ends.
func (sup *supervisor) supervise(ctx context.Context) {
	lock := sup.become(ctx)
	if lock == nil {
		return
	}
	defer lock.Close()
	sup.supervises.Store(true)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	watchers.Go(func() {
		if err := sup.run.place.emptyTrash("*"); err != nil {
			sup.run.cfg.Logger.Warn("could not remove destroyed servers", "error", err)
		}
	})
	var watched sync.Map // of ids
	starting := make(chan struct{}, startsAtOnce)
	status := &periodic.Status{What: "looking for servers to supervise", Level: slog.LevelError, Log: sup.run.cfg.Logger}
	periodic.Run(ctx, periodic.Schedule{Every: surveyInterval}, status, func(ctx context.Context) error {
		all, err := sup.run.place.servers()
		for _, sd := range all {
			if _, already := watched.LoadOrStore(sd.id, nil); already {
				continue
			}
			watchers.Go(func() {
				defer watched.Delete(sd.id)
				defer sup.settled.Delete(sd.id)
				sup.watch(ctx, sd, starting)
			})
		}
		return err
	})
}

// become waits for the lock of the state directory. It returns nil when the context has ended. It retries after every
// error, such as too many open files.
func (sup *supervisor) become(ctx context.Context) *os.File {
	status := periodic.Status{What: "becoming the broker that supervises the servers", Level: slog.LevelError,
		Log: sup.run.cfg.Logger}
	for {
		lock, err := files.AwaitLock(ctx, sup.run.cfg.Dir, standbyInterval)
		status.Report(ctx, err)
		if err == nil {
			return lock
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(standbyInterval):
		}
	}
}

// watch keeps one server running until it is retired.
func (sup *supervisor) watch(ctx context.Context, sd serverDir, starting chan struct{}) {
	vain := 0 // ends on a full disk, one soon after the other
	for backoff := minBackoff; ; {
		lived, err := sup.runOnce(ctx, sd, starting)
		if ctx.Err() != nil || errors.Is(err, errRetired) {
			return
		}
		if err != nil {
			sup.run.cfg.Logger.Error("could not start a server", "server", sd.id, "error", err)
		}
		if lived > maxBackoff {
			backoff = minBackoff
		}
		if vain++; lived > startsWithin || !endedOnFullDisk(sd) {
			vain = 0
		}
		if vain == startsInVain {
			sup.run.cfg.Logger.Error("a server keeps ending because its disk is full; it continues by itself when there is room",
				"server", sd.id, "count", vain, "error", logTail(sd))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// care is what a server needs while it runs.
type care struct {
	run  *runner
	keys *keys
	sd   serverDir
}

// runOnce starts a server if it does not run, and returns when it has exited, with the time that it ran. It does not
// hold the server's lock while the server runs.
func (sup *supervisor) runOnce(ctx context.Context, sd serverDir,
	starting chan struct{}) (lived time.Duration, err error) {
	s, err := sup.keepRunningInTurn(ctx, sd, starting)
	if err != nil {
		sup.settled.Store(sd.id, nil)
		return 0, err
	}
	defer s.close()
	sup.awaitSettled(ctx, sd, s)
	sup.run.checkGroup(sd, s)
	since := time.Now()
	running, end := context.WithCancel(ctx)
	var following sync.WaitGroup
	of := care{sup.run, sup.keys, sd}
	if !sup.run.cfg.UnlimitedMemory {
		following.Go(func() { of.guardMemory(running, s) })
	}
	following.Go(func() { of.guardAnswers(running, s) })
	following.Go(func() { of.keepRedoLog(running) })
	following.Go(func() { of.keepCertificate(running) })
	err = s.wait(ctx)
	end()
	following.Wait()
	return time.Since(since), err
}

// awaitSettled returns when the server is up, has exited, or has had startTimeout to come up.
func (sup *supervisor) awaitSettled(ctx context.Context, sd serverDir, s *server) {
	if _, already := sup.settled.Load(sd.id); already {
		return
	}
	limited, cancel := context.WithTimeout(ctx, sup.run.startTimeout)
	defer cancel()
	_ = pollUp(limited, sd, s) // the next login reports what is wrong
	sup.settled.Store(sd.id, nil)
}

// Starting implements launcher.Launcher.
func (l *Launcher) Starting(id string) bool {
	sd, err := l.run.place.server(id)
	if err != nil || !l.supervisor.supervises.Load() {
		return false
	}
	if _, settled := l.supervisor.settled.Load(id); settled {
		return false
	}
	st, err := sd.loadState()
	return err == nil && st.Phase == phaseReady
}

// keepRunningInTurn starts at most as many servers at once as starting holds. After a reboot, hundreds would otherwise
// recover from the same disk at the same time.
func (sup *supervisor) keepRunningInTurn(ctx context.Context, sd serverDir, starting chan struct{}) (*server, error) {
	for {
		select {
		case starting <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		s, err := sup.takeTurn(ctx, sd)
		<-starting
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return s, err
		}
		select { // until the launch, resize or destruction is done
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(busyInterval):
		}
	}
}

// takeTurn finds or starts a server. After a start, it waits until the server is up, for at most turnTime. It fails
// with unix.EWOULDBLOCK if another process holds the server's lock, which may take minutes.
func (sup *supervisor) takeTurn(ctx context.Context, sd serverDir) (*server, error) {
	lock, err := files.TryLock(sd.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errRetired
	}
	if err != nil {
		return nil, err
	}
	s, started, err := sup.run.keepReady(ctx, sd)
	_ = lock.Close()
	if err != nil || !started {
		return s, err
	}
	soon, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	_ = pollUp(soon, sd, s) // the result does not matter; a server that has exited is restarted
	return s, nil
}

// keepRunning finds or starts a server.
func (r *runner) keepRunning(ctx context.Context, sd serverDir) (*server, error) {
	unlock, err := lockDir(ctx, sd.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errRetired
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, _, err := r.keepReady(ctx, sd)
	return s, err
}

// keepReady is ensureRunning for a server that must be kept running. For any other, it returns errRetired.
func (r *runner) keepReady(ctx context.Context, sd serverDir) (s *server, started bool, err error) {
	st, err := sd.loadState()
	if errors.Is(err, launcher.ErrNotFound) || err == nil && st.Phase != phaseReady {
		return nil, false, errRetired
	}
	if err != nil {
		return nil, false, err
	}
	return r.ensureRunning(ctx, sd, st)
}
