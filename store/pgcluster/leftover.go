package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopLeftover ends every process of a server that a dead process of ours left in the data directory. A postmaster
// killed with SIGKILL has none left soon, but until then a new one would refuse to start beside its children.
func stopLeftover(ctx context.Context, dataDir string, log *slog.Logger) error {
	pids, err := processesIn(dataDir)
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return removePIDFile(dataDir)
	}
	log.Info("stopping the PostgreSQL server that an earlier run left", "processes", len(pids))
	if err := interruptPostmaster(dataDir, pids); err != nil {
		return err
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for len(pids) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("a server of an earlier run does not stop: %w", ctx.Err())
		}
		if pids, err = processesIn(dataDir); err != nil {
			return err
		}
	}
	return removePIDFile(dataDir)
}

// processesIn returns the processes whose working directory is dir, as that of each PostgreSQL process is its data
// directory. Unlike the pid in postmaster.pid this cannot mean a stranger that got the number later.
func processesIn(dir string) (pids []int, err error) {
	dir, err = filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		// Fails for a process that has just ended and for another user's, which is none of ours.
		if cwd, err := os.Readlink(link); err != nil || cwd != dir {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// interruptPostmaster asks for a fast shutdown if the postmaster is among pids; without it the others end unasked.
func interruptPostmaster(dataDir string, pids []int) error {
	text, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) { // it has all but ended
		return nil
	}
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		return fmt.Errorf("postmaster.pid: %w", err)
	}
	if !slices.Contains(pids, postmaster) {
		return nil
	}
	if err := syscall.Kill(postmaster, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop the server of an earlier run: %w", err)
	}
	return nil
}

// removePIDFile clears the way once nothing runs in the data directory: PostgreSQL would take a process that has got
// the old number since for its postmaster, and refuse to start.
func removePIDFile(dataDir string) error {
	err := os.Remove(filepath.Join(dataDir, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
