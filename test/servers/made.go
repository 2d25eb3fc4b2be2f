package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Made returns the path of a file or folder in SharedDir that takes long to create, such as a compiled program. The
// first test that asks for it calls create, with a temporary path beside it; all others wait.
func Made(t testing.TB, name string, create func(path string) error) string {
	path := filepath.Join(SharedDir(t), name)
	require.NoError(t, makeOnce(path, create), "make %s", name)
	return path
}

// makeOnce locks a file beside, as other test binaries make things too.
func makeOnce(path string, create func(path string) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	lock, err := os.Create(path + ".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	unfinished := path + ".unfinished"
	if err := errors.Join(os.RemoveAll(unfinished), create(unfinished)); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}
