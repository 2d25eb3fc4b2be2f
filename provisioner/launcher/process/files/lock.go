package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// AwaitLock waits for the exclusive lock of a directory until ctx ends, with pauses of at most every between attempts.
// It fails with fs.ErrNotExist if the directory does not exist, or no longer exists when its lock is free. The lock is
// released when all processes that have the file have closed it.
func AwaitLock(ctx context.Context, dir string, every time.Duration) (*os.File, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, every) {
		if ctx.Err() != nil { // start nothing more, even if the lock is free
			return nil, fmt.Errorf("wait for the lock of %s: %w", dir, context.Cause(ctx))
		}
		lock, err := TryLock(dir)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return lock, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// TryLock fails with unix.EWOULDBLOCK if another process holds the lock, or if the directory was replaced in between.
func TryLock(dir string) (_ *os.File, err error) {
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
