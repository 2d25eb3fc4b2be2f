package files

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// SpaceTaken is how many bytes of the disk the files in a directory take. Files may come and go meanwhile.
func SpaceTaken(dir string) (bytes uint64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok { // holes take no room
			bytes += uint64(st.Blocks) * 512
		}
		return nil
	})
	return bytes, err
}

// SpaceLeft returns how many bytes can still be written below a directory.
func SpaceLeft(dir string) (uint64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, fmt.Errorf("space left at %s: %w", dir, err)
	}
	return disk.Bavail * uint64(disk.Bsize), nil
}
