package process

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"mysql-broker/provisioner/launcher"
)

const (
	standbyInterval = time.Second      // how often a broker tries to become the one that supervises
	surveyInterval  = 2 * time.Second  // how often servers launched by other brokers are looked for
	minBackoff      = time.Second      // before a server that died is started again
	maxBackoff      = 60 * time.Second // before one that dies over and over is; one that lived as long is forgiven
)

// errRetired is returned for a server that is not, or no longer, to be kept running.
var errRetired = errors.New("server is not to be kept running")

// supervise starts servers that died, until the context ends, while this is the one broker of the state directory
// that does.
func (l *Launcher) supervise(ctx context.Context) {
	lock, err := pollLock(ctx, l.cfg.Dir, standbyInterval)
	if err != nil {
		if ctx.Err() == nil {
			l.cfg.Logger.Error("servers are not supervised", "error", err)
		}
		return
	}
	defer lock.Close()
	if err := l.emptyTrash("*"); err != nil {
		l.cfg.Logger.Warn("destroyed servers were not removed", "error", err)
	}
	var watchers sync.WaitGroup
	defer watchers.Wait()
	watchers.Go(func() { l.keepSpares(ctx) })
	var watched sync.Map // of ids
	survey := time.NewTicker(surveyInterval)
	defer survey.Stop()
	for {
		all, err := l.instances()
		if err != nil {
			l.cfg.Logger.Error("servers are not supervised", "error", err)
		}
		for _, inst := range all {
			if _, already := watched.LoadOrStore(inst.id, nil); already {
				continue
			}
			watchers.Go(func() {
				defer watched.Delete(inst.id)
				l.watch(ctx, inst)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-survey.C:
		}
	}
}

// watch keeps one server running until it is retired.
func (l *Launcher) watch(ctx context.Context, inst instance) {
	for backoff := minBackoff; ; {
		began := time.Now()
		err := l.runOnce(ctx, inst)
		if ctx.Err() != nil || errors.Is(err, errRetired) {
			return
		}
		if err != nil {
			l.cfg.Logger.Error("server cannot be started", "server", inst.id, "error", err)
		}
		if time.Since(began) > maxBackoff {
			backoff = minBackoff
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// runOnce sees to it that a server runs and returns when it has ended. The lock is not kept meanwhile.
func (l *Launcher) runOnce(ctx context.Context, inst instance) error {
	s, err := l.keepRunning(ctx, inst)
	if err != nil {
		return err
	}
	defer s.close()
	return s.wait(ctx)
}

func (l *Launcher) keepRunning(ctx context.Context, inst instance) (*server, error) {
	unlock, err := lockDir(ctx, inst.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errRetired
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	st, err := inst.loadState()
	if errors.Is(err, launcher.ErrNotFound) || err == nil && st.Phase != phaseReady {
		return nil, errRetired
	}
	if err != nil {
		return nil, err
	}
	return l.ensureRunning(ctx, inst, st)
}
