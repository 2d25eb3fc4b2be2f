package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockInterval is how often a lock that others hold is tried again, after first tries that follow each other faster:
	// most are held for a moment.
	lockInterval = 20 * time.Millisecond

	// lockTimeout outlasts the longest that one who holds a lock waits for a server.
	lockTimeout = startTimeout + time.Minute
)

var errLockTimeout = fmt.Errorf("another has held it for %s", lockTimeout)

// lockDir waits for the exclusive lock of a directory, for lockTimeout at most. It fails with fs.ErrNotExist when the
// directory is not there, or no longer by the time that its lock is free. The lock ends with unlock, or with the
// process.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	lock, err := holdLock(ctx, dir)
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// holdLock is lockDir for who passes the lock on: it ends once all processes that have the file have closed it.
func holdLock(ctx context.Context, dir string) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lockTimeout, errLockTimeout)
	defer cancel()
	return pollLock(ctx, dir, lockInterval)
}

// pollLock is holdLock without its limit. It tries the lock every so often until ctx ends.
func pollLock(ctx context.Context, dir string, every time.Duration) (*os.File, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, every) {
		if ctx.Err() != nil { // nothing is begun any more, even where the lock is free
			return nil, fmt.Errorf("wait for the lock of %s: %w", dir, context.Cause(ctx))
		}
		lock, err := tryLock(dir)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return lock, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// tryLock fails with unix.EWOULDBLOCK while another holds the lock, or the directory was replaced meanwhile.
func tryLock(dir string) (_ *os.File, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	locked, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if named, err := os.Stat(dir); err != nil || !os.SameFile(named, locked) {
		return nil, fmt.Errorf("lock %s: %w", dir, unix.EWOULDBLOCK)
	}
	return f, nil
}
