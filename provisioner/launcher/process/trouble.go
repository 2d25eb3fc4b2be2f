package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"mysql-broker/provisioner/launcher"
)

const (
	troubleAge      = time.Hour       // after which a log says nothing of the present
	troubleLogBytes = 16 << 10        // of the end of a log, in which a full disk is looked for
	troubleTime     = 2 * time.Second // for each server to respond, if the disk is full
	looksAtOnce     = 64              // servers
)

// Troubles implements launcher.Observer: it sees servers that do not respond, or log that the disk is full, while the
// disk has no room to start them. Some servers end then, others hang; MariaDB does one after the other.
func (l *Launcher) Troubles(ctx context.Context) (map[string]launcher.Trouble, error) {
	free, err := spaceLeft(l.cfg.Dir)
	if err != nil || free >= startSpaceMB<<20 {
		return nil, err
	}
	all, err := l.serverDirs()
	if err != nil {
		return nil, err
	}
	found := map[string]launcher.Trouble{}
	var mu sync.Mutex
	var looks sync.WaitGroup
	atOnce := make(chan struct{}, looksAtOnce)
	for _, sd := range all {
		looks.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			if l.suffersFromFullDisk(ctx, sd) {
				mu.Lock()
				defer mu.Unlock()
				found[sd.launchedID()] = launcher.VolumeFull
			}
		})
	}
	looks.Wait()
	return found, nil
}

// suffersFromFullDisk is about a server on a full disk.
func (l *Launcher) suffersFromFullDisk(ctx context.Context, sd serverDir) bool {
	st, err := sd.loadState()
	if err != nil || st.Phase != phaseReady {
		return false
	}
	log, err := os.Stat(sd.logFile())
	if err == nil && time.Since(log.ModTime()) < troubleAge && saysDiskFull(errors.New(readLogEnd(sd, troubleLogBytes))) {
		return true
	}
	limited, cancel := context.WithTimeout(ctx, troubleTime)
	defer cancel()
	up, err := probe(limited, sd)
	return err == nil && !up && ctx.Err() == nil // else it had less time to respond
}
