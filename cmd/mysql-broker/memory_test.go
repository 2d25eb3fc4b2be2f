package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A process that was started with a limit of 0, and may not raise it, returns an error if a program could still collect
// its core.
func TestForbidCores(t *testing.T) {
	must(t, forbidCores("not read"))
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_CORE, &limit))
	assert.True(t, limit == (unix.Rlimit{Cur: 1, Max: 1}), "the limit is %+v", limit)
	must(t, unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})) // it stays so, for this process
	file, pipe := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "pipe")
	must(t, os.WriteFile(file, []byte("core\n"), 0o600))
	must(t, os.WriteFile(pipe, []byte("|/usr/bin/collect %p\n"), 0o600))
	unprivileged(t, func() {
		assert.NoError(t, forbidCores(file), "cores in files")
		for _, pattern := range []string{pipe, "/no/such/file"} {
			err := forbidCores(pattern)
			assert.True(t, err != nil && strings.Contains(err.Error(), pattern), "%s: %v", pattern, err)
		}
	})
}

// unprivileged runs fn on a thread of its own that has no capabilities.
func unprivileged(t *testing.T, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			t.Error(err)
			return
		}
		fn()
	}()
	<-done
}

func must(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}
