package process

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
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

// supervise waits until this is the only supervisor of the state directory, and then restarts servers that died, until
// the context ends.
func (l *Launcher) supervise(ctx context.Context) {
	lock := l.becomeSupervisor(ctx)
	if lock == nil {
		return
	}
	defer lock.Close()
	l.supervises.Store(true)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	watchers.Go(func() {
		if err := l.emptyTrash("*"); err != nil {
			l.cfg.Logger.Warn("destroyed servers were not removed", "error", err)
		}
	})
	var watched sync.Map // of ids
	starting := make(chan struct{}, startsAtOnce)
	status := &periodic.Status{What: "looking for servers to supervise", Level: slog.LevelError, Log: l.cfg.Logger}
	periodic.Run(ctx, periodic.Schedule{Every: surveyInterval}, status, func(ctx context.Context) error {
		all, err := l.serverDirs()
		for _, sd := range all {
			if _, already := watched.LoadOrStore(sd.id, nil); already {
				continue
			}
			watchers.Go(func() {
				defer watched.Delete(sd.id)
				defer l.settled.Delete(sd.id)
				l.watch(ctx, sd, starting)
			})
		}
		return err
	})
}

// becomeSupervisor waits for the lock of the state directory. It returns nil when the context has ended. It retries
// after every error, such as too many open files.
func (l *Launcher) becomeSupervisor(ctx context.Context) *os.File {
	status := periodic.Status{What: "becoming the broker that supervises the servers", Level: slog.LevelError,
		Log: l.cfg.Logger}
	for {
		lock, err := files.AwaitLock(ctx, l.cfg.Dir, standbyInterval)
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
func (l *Launcher) watch(ctx context.Context, sd serverDir, starting chan struct{}) {
	vain := 0 // ends on a full disk, one soon after the other
	for backoff := minBackoff; ; {
		lived, err := l.runOnce(ctx, sd, starting)
		if ctx.Err() != nil || errors.Is(err, errRetired) {
			return
		}
		if err != nil {
			l.cfg.Logger.Error("server cannot be started", "server", sd.id, "error", err)
		}
		if lived > maxBackoff {
			backoff = minBackoff
		}
		if vain++; lived > startsWithin || !endedOnFullDisk(sd) {
			vain = 0
		}
		if vain == startsInVain {
			l.cfg.Logger.Error("a server keeps ending because its disk is full; it continues by itself when there is room",
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

// runOnce starts a server if it does not run, and returns when it has exited, with the time that it ran. It does not
// hold the server's lock while the server runs.
func (l *Launcher) runOnce(ctx context.Context, sd serverDir, starting chan struct{}) (lived time.Duration, err error) {
	s, err := l.keepRunningInTurn(ctx, sd, starting)
	if err != nil {
		l.settled.Store(sd.id, nil)
		return 0, err
	}
	defer s.close()
	l.awaitSettled(ctx, sd, s)
	l.checkGroup(sd, s)
	since := time.Now()
	running, end := context.WithCancel(ctx)
	var following sync.WaitGroup
	if !l.cfg.UnlimitedMemory {
		following.Go(func() { l.guardMemory(running, sd, s) })
	}
	following.Go(func() { l.keepRedoLog(running, sd) })
	following.Go(func() { l.keepCertificate(running, sd) })
	err = s.wait(ctx)
	end()
	following.Wait()
	return time.Since(since), err
}

// awaitSettled returns when the server is up, has exited, or has had startTimeout to come up.
func (l *Launcher) awaitSettled(ctx context.Context, sd serverDir, s *server) {
	if _, already := l.settled.Load(sd.id); already {
		return
	}
	limited, cancel := context.WithTimeout(ctx, l.startTimeout)
	defer cancel()
	_ = pollUp(limited, sd, s) // the next login reports what is wrong
	l.settled.Store(sd.id, nil)
}

// Starting implements launcher.Launcher.
func (l *Launcher) Starting(id string) bool {
	sd, err := l.serverDir(id)
	if err != nil || !l.supervises.Load() {
		return false
	}
	if _, settled := l.settled.Load(id); settled {
		return false
	}
	st, err := sd.loadState()
	return err == nil && st.Phase == phaseReady
}

// keepRunningInTurn starts at most as many servers at once as starting holds. After a reboot, hundreds would otherwise
// recover from the same disk at the same time.
func (l *Launcher) keepRunningInTurn(ctx context.Context, sd serverDir, starting chan struct{}) (*server, error) {
	for {
		select {
		case starting <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		s, err := l.takeTurn(ctx, sd)
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
func (l *Launcher) takeTurn(ctx context.Context, sd serverDir) (*server, error) {
	lock, err := files.TryLock(sd.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errRetired
	}
	if err != nil {
		return nil, err
	}
	s, started, err := l.keepReady(ctx, sd)
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
func (l *Launcher) keepRunning(ctx context.Context, sd serverDir) (*server, error) {
	unlock, err := lockDir(ctx, sd.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errRetired
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, _, err := l.keepReady(ctx, sd)
	return s, err
}

// keepReady is ensureRunning for a server that must be kept running. For any other, it returns errRetired.
func (l *Launcher) keepReady(ctx context.Context, sd serverDir) (s *server, started bool, err error) {
	st, err := sd.loadState()
	if errors.Is(err, launcher.ErrNotFound) || err == nil && st.Phase != phaseReady {
		return nil, false, errRetired
	}
	if err != nil {
		return nil, false, err
	}
	return l.ensureRunning(ctx, sd, st)
}
