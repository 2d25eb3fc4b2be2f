package pgcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopLeftover stops all processes of a server that a dead process has left in the data directory. After a SIGKILL of
// the postmaster its children end soon, but until then a new server beside them would damage the data.
func stopLeftover(ctx context.Context, dataDir string, log *slog.Logger) error {
	dir, err := os.Stat(dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pids, err := postmasters(dir)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		log.Info("stopping the PostgreSQL server that an earlier run left", "pid", pid)
		if err := syscall.Kill(pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the server of an earlier run: %w", err)
		}
	}
	if err := awaitUnused(ctx, dir, dataDir); err != nil {
		return err
	}
	return removePIDFile(dataDir)
}

func awaitUnused(ctx context.Context, dir os.FileInfo, dataDir string) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if used, err := inUse(dir, dataDir); err != nil || !used {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("a server of an earlier run does not stop: %w", ctx.Err())
		}
	}
}

// inUse reports whether any PostgreSQL process, a postmaster or a child of a killed one, runs in the data directory.
func inUse(dir os.FileInfo, dataDir string) (bool, error) {
	pids, err := postmasters(dir)
	if err != nil || len(pids) > 0 {
		return true, err
	}
	return sharedMemoryAttached(dataDir)
}

// postmasters returns the processes started as "postgres -D dir" that belong to dir's owner. It reads command lines,
// because everybody can. Even root cannot read working directories without CAP_SYS_PTRACE, and the pid in
// postmaster.pid may belong to another process by now.
func postmasters(dir os.FileInfo) (pids []int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		cmdline, err := os.ReadFile(file)
		if err != nil { // it has just ended
			continue
		}
		process := filepath.Dir(file)
		if !serves(cmdline, dir) || !sameOwner(process, dir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// serves reports whether a command line is that of serverArgs, for any path to the data directory.
func serves(cmdline []byte, dir os.FileInfo) bool {
	args := bytes.Split(cmdline, []byte{0})
	if len(args) < 3 || filepath.Base(string(args[0])) != "postgres" || string(args[1]) != "-D" {
		return false
	}
	named, err := os.Stat(string(args[2]))
	return err == nil && os.SameFile(named, dir)
}

func sameOwner(process string, dir os.FileInfo) bool {
	info, err := os.Stat(process)
	return err == nil && info.Sys().(*syscall.Stat_t).Uid == dir.Sys().(*syscall.Stat_t).Uid
}

// sharedMemoryAttached reports whether a process has attached the shared memory in postmaster.pid, as a postmaster and
// its children have until they end. Without that file, the server has stopped cleanly.
func sharedMemoryAttached(dataDir string) (bool, error) {
	pidFile, err := os.ReadFile(pidFile(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lines := strings.Split(string(pidFile), "\n")
	if len(lines) < pidFileShmem {
		return false, nil
	}
	segment := strings.Fields(lines[pidFileShmem-1])
	if len(segment) != 2 { // the server did not get that far
		return false, nil
	}
	table, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		return false, err
	}
	return attached(string(table), segment[0], segment[1]), nil
}

// attached looks up a segment in the kernel's table (https://man7.org/linux/man-pages/man5/proc_sysvipc.5.html).
func attached(table, key, id string) bool {
	for line := range strings.Lines(table) {
		const nattch = 6
		columns := strings.Fields(line)
		if len(columns) > nattch && columns[0] == key && columns[1] == id {
			return columns[nattch] != "0"
		}
	}
	return false
}

// pidFileShmem is the line of postmaster.pid with the key and id of the shared memory, counted from 1: PostgreSQL's
// LOCK_FILE_LINE_SHMEM_KEY.
const pidFileShmem = 7

func pidFile(dataDir string) string { return filepath.Join(dataDir, "postmaster.pid") }

// removePIDFile removes postmaster.pid when nothing runs in the data directory. Otherwise PostgreSQL would mistake a
// new process with the old pid for its postmaster, and refuse to start.
func removePIDFile(dataDir string) error {
	err := os.Remove(pidFile(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
