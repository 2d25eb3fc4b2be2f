package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Only root's servers run as somebody else.
func TestCheckReach(t *testing.T) {
	t.Parallel()
	owner, err := LookupOwner()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "open")
	closed := filepath.Join(dir, "closed")
	inside := filepath.Join(closed, "inside")
	require.NoError(t, os.MkdirAll(inside, 0o755))
	require.NoError(t, errors.Join(os.Chmod(closed, 0o700), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)))
	mine := os.Geteuid() != 0
	for path, want := range map[string]bool{dir: owner.CheckReach(os.TempDir()) == nil, closed: mine, inside: mine} {
		assert.Equal(t, want, owner.CheckReach(path) == nil, path)
	}
}
