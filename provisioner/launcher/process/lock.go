package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockInterval is how often a lock that others hold is tried again.
const lockInterval = 20 * time.Millisecond

// lockDir waits for the exclusive lock of a directory, trying it every so often. It fails with fs.ErrNotExist when
// the directory is not there, or no longer by the time that its lock is free. The lock ends with unlock, or with the
// process.
func lockDir(ctx context.Context, dir string, every time.Duration) (unlock func(), err error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		unlock, err := tryLockDir(dir)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the lock of %s: %w", dir, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// tryLockDir fails with unix.EWOULDBLOCK while another holds the lock, or the directory was replaced meanwhile.
func tryLockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	unlock = func() { _ = f.Close() }
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unlock()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	locked, err := f.Stat()
	if err != nil {
		unlock()
		return nil, fmt.Errorf("lock: %w", err)
	}
	if named, err := os.Stat(dir); err != nil || !os.SameFile(named, locked) {
		unlock()
		return nil, fmt.Errorf("lock %s: %w", dir, unix.EWOULDBLOCK)
	}
	return unlock, nil
}
