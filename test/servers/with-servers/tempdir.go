package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

const (
	killTime     = 10 * time.Second
	pollInterval = 20 * time.Millisecond
)

// tempDir is the command's $TMPDIR. Whatever a test that is killed leaves running has its files there.
type tempDir string

// newTempDir makes a directory with a short path, for the sake of socket paths, that servers of another user can enter.
func newTempDir() (tempDir, error) {
	dir, err := os.MkdirTemp("", "mb")
	if err != nil {
		return "", err
	}
	return tempDir(dir), os.Chmod(dir, 0o711)
}

// remove kills every process whose command line names something in the directory, with its children, which may have
// changed theirs as PostgreSQL's do, and removes the directory.
func (d tempDir) remove() error {
	deadline := time.Now().Add(killTime)
	victims := map[int]bool{}
	for {
		table, err := readProcesses()
		if err != nil {
			return err
		}
		d.addUsers(victims, table)
		running := 0
		for pid := range victims {
			if _, ok := table[pid]; ok {
				running++
				_ = syscall.Kill(pid, syscall.SIGKILL) // fails only where it has ended
			}
		}
		if running == 0 {
			return os.RemoveAll(string(d))
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("%d processes in %s cannot be killed", running, d), os.RemoveAll(string(d)))
		}
		time.Sleep(pollInterval)
	}
}

// addUsers adds the processes that use the directory, and all that descend from them.
func (d tempDir) addUsers(pids map[int]bool, table map[int]process) {
	for pid, p := range table {
		if strings.Contains(p.command, string(d)+"/") {
			pids[pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, p := range table {
			if pids[p.parent] && !pids[pid] {
				pids[pid], grown = true, true
			}
		}
	}
}

type process struct {
	command string
	parent  int
}

// readProcesses returns all processes of this host but those that have ended, or wait for their parent to notice that.
func readProcesses() (map[int]process, error) {
	all, err := procfs.AllProcs()
	table := map[int]process{}
	for _, p := range all {
		command, gone := p.CmdLine()
		stat, ended := p.Stat()
		if gone == nil && ended == nil && stat.State != "Z" && stat.State != "X" {
			table[p.PID] = process{strings.Join(command, " "), stat.PPID}
		}
	}
	return table, err
}
