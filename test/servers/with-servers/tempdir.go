package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
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
		if bytes.Contains(p.command, []byte(d+"/")) {
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
	command []byte // arguments, each ended by a zero byte
	parent  int
}

// readProcesses returns all processes of this host but those that have ended and wait for their parent to notice.
func readProcesses() (map[int]process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	table := map[int]process{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		if p, ok := readProcess(dir); ok {
			table[pid] = p
		}
	}
	return table, nil
}

// readProcess reports false for a process that has ended (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html).
func readProcess(dir string) (p process, ok bool) {
	command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return p, false
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return p, false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // state, parent, …
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return p, false
	}
	parent, err := strconv.Atoi(fields[1])
	return process{command: command, parent: parent}, err == nil
}
