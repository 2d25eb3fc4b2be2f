package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"mysql-broker/provisioner/launcher/process/files"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopGrace is how long a server may take to write its changes to disk before it is killed. A killed server loses
// nothing: it recovers at its next start.
const stopGrace = 30 * time.Second

// server is a running mysqld, started by this broker or an earlier one. A pidfd refers to it, so that a later process
// with the same pid is never mistaken for it. https://man7.org/linux/man-pages/man2/pidfd_open.2.html
type server struct {
	pid   int
	pidfd *os.File
}

// settingsOption is the first argument of a server, which identifies it among all processes.
func settingsOption(sd serverDir) string { return "--defaults-file=" + sd.settingsFile() }

// tableTimeout is much longer than a server runs without its arguments in the process table.
const tableTimeout = time.Minute

var errNotInTable = fmt.Errorf("a process has held the lock of its keys for %s, and is not recognised as a server",
	tableTimeout)

// findServer returns the process of a server; nil if it does not run.
//
// While a server starts or exits, the process table shows other arguments or none: after its fork, while it is loaded,
// and once its first thread has ended. It then still holds the lock of its keys' directory, and findServer waits.
func findServer(ctx context.Context, sd serverDir, who files.Owner) (*server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tableTimeout, errNotInTable)
	defer cancel()
	for {
		s, err := searchProcesses(sd, who)
		if s != nil || err != nil {
			return s, err
		}
		lock, err := files.TryLock(sd.tlsDir())
		if err == nil {
			return nil, lock.Close()
		}
		if errors.Is(err, fs.ErrNotExist) { // it was never started
			return nil, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, sd.explain(err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("server %s: %w", sd.id, context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
	}
}

// searchProcesses searches the process table for a server. Processes of other users with the same arguments do not
// count.
func searchProcesses(sd serverDir, who files.Owner) (*server, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !isServer(pid, sd, who) {
			continue
		}
		s, err := openServer(pid)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if isServer(pid, sd, who) { // still true: the pid was not reused in between
			return s, nil
		}
		s.close()
	}
	return nil, nil
}

func isServer(pid int, sd serverDir, who files.Owner) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	arguments, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return false
	}
	parts := bytes.Split(arguments, []byte{0})
	if len(parts) < 2 || string(parts[1]) != settingsOption(sd) {
		return false
	}
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == who.UID
}

// openServer opens a process. The error wraps unix.ESRCH if the process has exited.
func openServer(pid int) (*server, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &server{pid: pid, pidfd: os.NewFile(uintptr(fd), "pidfd")}, nil
}

func (s *server) close() { _ = s.pidfd.Close() }

// exited reports whether the process has exited.
func (s *server) exited() bool {
	ended := false
	_ = s.withFD(func(fd int) { ended = readable(fd) })
	return ended
}

// wait returns when the process has exited, or with the context's error. It does not block a thread.
func (s *server) wait(ctx context.Context) error {
	_ = s.pidfd.SetReadDeadline(time.Time{})
	wake := context.AfterFunc(ctx, func() { _ = s.pidfd.SetReadDeadline(time.Unix(1, 0)) })
	defer wake()
	conn, err := s.pidfd.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", s.pid, err)
	}
	err = conn.Read(func(fd uintptr) bool { return readable(int(fd)) })
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", s.pid, err)
	}
	return nil
}

// stop terminates the server, and kills it if it has not exited after stopGrace.
func (s *server) stop(ctx context.Context) error {
	if err := s.signal(unix.SIGTERM); err != nil {
		return err
	}
	polite, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	if err := s.wait(polite); err == nil || ctx.Err() != nil {
		return err
	}
	return s.kill(ctx)
}

func (s *server) kill(ctx context.Context) error {
	if err := s.signal(unix.SIGKILL); err != nil {
		return err
	}
	return s.wait(ctx)
}

// signal sends a signal. It is no error if the process has exited.
func (s *server) signal(sig unix.Signal) error {
	var sent error
	err := s.withFD(func(fd int) { sent = unix.PidfdSendSignal(fd, sig, nil, 0) })
	if err = errors.Join(err, sent); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", s.pid, err)
	}
	return nil
}

func (s *server) withFD(use func(fd int)) error {
	conn, err := s.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Control(func(fd uintptr) { use(int(fd)) })
}

// readable reports whether a pidfd is readable, as it is once its process has exited.
func readable(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}
