package process

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mysql-broker/test/limits"
)

// A server that works, or that somebody has stopped, does not hang: only one whose threads all wait is ended.
func TestOnlyAServerThatDoesNothingSleeps(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]bool{"echo; read x": true, "echo; while :; do :; done": false} {
		cmd := exec.Command("/bin/sh", "-c", script)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = out.Read(make([]byte, 1)) // the script runs
		require.NoError(t, err)
		s := &server{pid: cmd.Process.Pid}
		assert.Eventually(t, func() bool { return s.sleeps() == want }, limits.Stuck, time.Millisecond, script)
		require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
		_, err = unix.Wait4(s.pid, nil, unix.WUNTRACED, nil)
		require.NoError(t, err)
		assert.False(t, s.sleeps(), "%s, stopped", script)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		assert.False(t, s.sleeps(), "%s, ended", script)
		_ = in.Close()
	}
}
