package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"mysql-broker/provisioner/launcher/process/files"
)

const (
	pollInterval = 20 * time.Millisecond
	tailBytes    = 4096 // of the server's log in an error
)

// server is a child process that runs postgres.
type server struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// startServer returns when the server accepts connections with that URL.
func startServer(ctx context.Context, h *home, url string, port int, durable bool) (*server, error) {
	log, err := os.OpenFile(filepath.Join(h.dir, "postgres.log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	logStart, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	// Every process of a server has the lock until it ends, and would damage the data beside those of a new server.
	lock, err := files.AwaitLock(ctx, h.dir, pollInterval)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	// Nothing runs in the directory, and PostgreSQL would take another process with this pid for its postmaster.
	if err := files.Remove(filepath.Join(h.dataDir(), "postmaster.pid")); err != nil {
		return nil, err
	}
	s := &server{done: make(chan struct{})}
	s.cmd = h.command(context.WithoutCancel(ctx), "postgres", serverArgs(h.dataDir(), port, durable)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.ExtraFiles = []*os.File{lock}
	s.cmd.SysProcAttr.Pdeathsig = syscall.SIGINT // if this process dies, the server shuts down
	if err := s.run(); err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx, url); err != nil {
		s.stopAtOnce()
		return nil, fmt.Errorf("start postgres: %w\n%s", err, tail(log, logStart))
	}
	return s, nil
}

// run starts the server, and closes done when it has ended.
func (s *server) run() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel sends Pdeathsig when the thread ends that has started the server
		defer close(s.done)
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // its log says how it ended
		}
	}()
	return <-started
}

func serverArgs(dataDir string, port int, durable bool) []string {
	args := []string{"-D", dataDir, "-p", strconv.Itoa(port), "-h", "127.0.0.1", "-k", "",
		"-c", "dynamic_shared_memory_type=mmap"} // in dataDir; a server that is killed would leave files in /dev/shm
	if durable {
		return append(args, "-N", "300")
	}
	// Tests run dozens of brokers at once, each on a small database of its own that lives for a minute.
	args = append(args, "-N", "1000")
	for _, setting := range []string{"fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off",
		"jit=off", "max_wal_size=8GB", "checkpoint_timeout=1h"} {
		args = append(args, "-c", setting)
	}
	return args
}

func (s *server) awaitReady(ctx context.Context, url string) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-tick.C:
		case <-s.done:
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", err)
		}
	}
}

// stop is PostgreSQL's fast shutdown (https://www.postgresql.org/docs/current/server-shutdown.html).
func (s *server) stop(ctx context.Context) error {
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop postgres: %w", err)
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		s.stopAtOnce()
		return fmt.Errorf("stop postgres: %w", ctx.Err())
	}
}

// stopAtOnce is PostgreSQL's immediate shutdown, which ends within some 5 seconds.
func (s *server) stopAtOnce() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT) // fails only if it has ended
	<-s.done
}

// tail is the end of the log since the start.
func tail(log *os.File, start int64) string {
	end, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	text := make([]byte, min(end-start, tailBytes))
	n, _ := log.ReadAt(text, end-int64(len(text)))
	return string(text[:n])
}
