// Package files writes, copies, locks and measures the files of servers, for the account that servers run as.
package files

import (
	"os"
	"path/filepath"
)

// Replace replaces the content of path durably: after a power failure it has either the old content or the new. The
// caller holds the lock of the directory.
func Replace(path string, content []byte, mode os.FileMode) error {
	next := path + ".new"
	if err := Write(next, content, mode); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Write writes and syncs a file.
func Write(path string, content []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// SyncDir makes durable which files a directory has.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Remove removes files and directories, which may be gone already.
func Remove(paths ...string) error {
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// RemoveMatching removes the files of a directory whose names match one of the patterns.
func RemoveMatching(dir string, patterns ...string) error {
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range paths {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}
