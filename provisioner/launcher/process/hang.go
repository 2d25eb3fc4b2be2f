package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	hangInterval = 30 * time.Second
	// hangPatience is how often in a row a server may be found to hang.
	hangPatience = 10
)

// guardAnswers kills a server that has hung for minutes, which is then restarted. MariaDB hangs for good if several
// sessions write rows with thousands of texts into temporary tables at once: see deploy/shared-server/mariadb.cnf.
func (c care) guardAnswers(ctx context.Context, s *server) {
	if persists(ctx, c.run.cfg.hangInterval, hangPatience, func() bool { return c.hangs(ctx, s) }) {
		c.run.cfg.Logger.Warn("restarting a server that hangs: for minutes nobody could log in, and it did nothing",
			"server", c.sd.id)
		c.kill(ctx, s)
	}
}

// hangs reports whether a server accepts connections and does not respond, although it waits neither for the processor
// nor for a disk, and no process has stopped it. A server that recovers does not accept connections yet.
func (c care) hangs(ctx context.Context, s *server) bool {
	limited, cancel := context.WithTimeout(ctx, c.run.cfg.hangInterval/5)
	defer cancel()
	up, err := probe(limited, c.sd)
	if up || err != nil || !errors.Is(limited.Err(), context.DeadlineExceeded) {
		return false
	}
	full, err := isFull(c.sd.dir)
	return err == nil && !full && s.sleeps()
}

// sleeps reports whether each thread of the server waits for an event that is none of a disk: it has the state "S" of
// proc_pid_stat(5).
func (s *server) sleeps() bool {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(s.pid), "task", "*", "stat"))
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil || !bytes.Contains(stat, []byte(") S ")) {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

// persists returns true when a condition held so many times in a row, and false when the context ends.
func persists(ctx context.Context, interval time.Duration, times int, holds func() bool) bool {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 0; n < times; {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if n++; !holds() {
			n = 0
		}
	}
	return true
}

func (c care) kill(ctx context.Context, s *server) {
	if err := s.kill(ctx); err != nil && ctx.Err() == nil {
		c.run.cfg.Logger.Error("could not kill a server that is to be restarted", "server", c.sd.id, "error", err)
	}
}
