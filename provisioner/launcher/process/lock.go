package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher"
)

const (
	// lockInterval is the longest pause between attempts to take a lock that another process holds. The first attempts
	// follow faster, because most locks are held only briefly.
	lockInterval = 20 * time.Millisecond

	// lockTimeout is longer than the longest time that a lock's holder waits for a server.
	lockTimeout = startTimeout + time.Minute
)

var errLockTimeout = fmt.Errorf("another process has held it for %s", lockTimeout)

// lockDir waits up to lockTimeout for the exclusive lock of a directory. It fails with fs.ErrNotExist if the directory
// does not exist, or no longer exists when its lock is free. The lock is released by unlock or when the process ends.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	lock, err := holdLock(ctx, dir)
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// holdLock is lockDir for a caller that passes the lock on to other processes: it is released when all of them have
// closed the file.
func holdLock(ctx context.Context, dir string) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lockTimeout, errLockTimeout)
	defer cancel()
	return pollLock(ctx, dir, lockInterval)
}

// pollLock is holdLock without the timeout. It retries the lock, with pauses of at most every, until ctx ends.
func pollLock(ctx context.Context, dir string, every time.Duration) (*os.File, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, every) {
		if ctx.Err() != nil { // start nothing more, even if the lock is free
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

// tryLock fails with unix.EWOULDBLOCK if another process holds the lock, or if the directory was replaced in between.
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

// lock waits for the lock of a server. It fails with launcher.ErrNotFound if there is no such server.
func (d serverDir) lock(ctx context.Context) (unlock func(), err error) {
	unlock, err = lockDir(ctx, d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("server %s: %w", d.id, launcher.ErrNotFound)
	}
	return unlock, err
}
