package process

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mysql-broker/provisioner/launcher"
)

const (
	troubleAge      = time.Hour       // after which a log says nothing of the present
	troubleLogBytes = 16 << 10        // of the end of a log, in which a full disk is looked for
	startsLogBytes  = 64 << 10        // of the end of a log, in which starts are counted
	troubleTime     = 2 * time.Second // for each server to respond, if the disk is full
	looksAtOnce     = 64              // servers
)

// Troubles implements launcher.Observer: it sees servers that do not respond, or log that the disk is full, while the
// disk has no room to start them. Some servers end then, others hang; MariaDB does one after the other. It also sees
// servers that end again and again because the disk is full, and free their temporary files each time.
func (l *Launcher) Troubles(ctx context.Context) (map[string]launcher.Trouble, error) {
	full, err := isFull(l.run.cfg.Dir)
	if err != nil {
		return nil, err
	}
	all, err := l.run.place.servers()
	if err != nil {
		return nil, err
	}
	found := map[string]launcher.Trouble{}
	var mu sync.Mutex
	var looks errgroup.Group
	looks.SetLimit(looksAtOnce)
	for _, sd := range all {
		looks.Go(func() error {
			if l.suffersFromFullDisk(ctx, sd, full) {
				mu.Lock()
				defer mu.Unlock()
				found[sd.id] = launcher.VolumeFull
			}
			return nil
		})
	}
	return found, looks.Wait()
}

// suffersFromFullDisk reports whether a server has no room. full says that there is none at the moment.
func (l *Launcher) suffersFromFullDisk(ctx context.Context, sd serverDir, full bool) bool {
	st, err := sd.loadState()
	if err != nil || st.Phase != phaseReady {
		return false
	}
	log, err := os.Stat(sd.logFile())
	recent := err == nil && time.Since(log.ModTime()) < troubleAge
	switch {
	case full && recent && saysDiskFull(errors.New(readLogEnd(sd, troubleLogBytes))):
		return true
	case !full && !(recent && startsOnFullDisk(readLogEnd(sd, startsLogBytes)) >= startsInVain):
		return false
	}
	limited, cancel := context.WithTimeout(ctx, troubleTime)
	defer cancel()
	up, err := probe(limited, sd)
	return err == nil && !up && ctx.Err() == nil // else it had less time to respond
}

const (
	startsInVain  = 3               // so many starts on a full disk, one after the other, are no accident
	startsWithin  = 5 * time.Minute // at most between two of them
	logTimeLayout = "2006-01-02 15:04:05"
)

// startLine matches the line that each flavour logs first.
var startLine = regexp.MustCompile(`(?m)^(\d{4}-\d\d-\d\d)[T ]+(\d?\d:\d\d:\d\d).* as process \d+`)

// endedOnFullDisk reports whether a server that has ended lacked room: its disk has none, in which case its log may say
// nothing of that, or its log says so.
func endedOnFullDisk(sd serverDir) bool {
	full, _ := isFull(sd.dir) // the log may say it nevertheless
	return full || startsOnFullDisk(readLogEnd(sd, startsLogBytes)) > 0
}

// startsOnFullDisk counts the last starts in a log that ended soon because the disk was full, one after the other. The
// very last one may still go on.
func startsOnFullDisk(log string) (n int) {
	all := startLine.FindAllStringSubmatchIndex(log, -1)
	end, next := len(log), time.Time{}
	for i, at := range slices.Backward(all) {
		began, err := time.Parse(logTimeLayout, log[at[2]:at[3]]+" "+log[at[4]:at[5]])
		if err != nil || !next.IsZero() && next.Sub(began) > startsWithin {
			return n
		}
		if saysDiskFull(errors.New(log[at[0]:end])) {
			n++
		} else if i < len(all)-1 {
			return n
		}
		end, next = at[0], began
	}
	return n
}
