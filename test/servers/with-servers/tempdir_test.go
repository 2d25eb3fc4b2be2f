package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A child that names the directory nowhere, as PostgreSQL's, ends with its parent that does.
func TestRemoveEndsWhatTheCommandLeft(t *testing.T) {
	t.Parallel()
	dir, err := newTempDir()
	require.NoError(t, err)
	left := exec.Command("sh", "-c", "sleep 600 & echo started; wait", filepath.Join(string(dir), "server"))
	out, err := left.StdoutPipe() // closed when both have ended
	require.NoError(t, err)
	require.NoError(t, left.Start())
	printed := bufio.NewReader(out)
	line, err := printed.ReadString('\n')
	require.NoError(t, err, "read %q", line)
	assert.NoError(t, dir.remove())
	_, err = printed.ReadByte()
	assert.True(t, err == io.EOF, "the child's output: %v", err)
	_ = left.Wait() // it was killed, or ended because its child was
	_, err = os.Stat(string(dir))
	assert.True(t, os.IsNotExist(err), "the directory: %v", err)
}
