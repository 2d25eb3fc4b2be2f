package testdrive

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mysql-broker/test/limits"
)

// Pause stops the broker with SIGSTOP, and returns when all its threads have stopped. SIGCONT continues it. It may be
// called from any goroutine.
func (b *Broker) Pause(t testing.TB) {
	t.Helper()
	b.Signal(t, syscall.SIGSTOP)
	awaitStopped(t, b.PID())
}

// awaitStopped returns when all threads of a process that was sent SIGSTOP have stopped. On a busy machine, they can work
// on for a while.
func awaitStopped(t testing.TB, pid int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limits.Stuck); ; <-tick.C {
		still, err := stopped(pid)
		if err != nil || time.Now().After(deadline) {
			t.Errorf("process %d does not stand still: %v", pid, err)
			return
		}
		if still {
			return
		}
	}
}

// stopped reports whether all threads have the state T. https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
func stopped(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		raw, err := os.ReadFile(thread)
		if os.IsNotExist(err) { // it has just ended
			return false, nil
		}
		if err != nil {
			return false, err
		}
		_, fields, _ := strings.Cut(string(raw), ") ")
		if !strings.HasPrefix(fields, "T") {
			return false, nil
		}
	}
	return len(threads) > 0, nil
}
