package dev

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	defaultDir = ".dev"
	// rootDir has root's state if the servers, which do not run as root, cannot enter defaultDir.
	rootDir = "/var/lib/mysql-broker-dev"
)

// stateDir creates the state directory and returns its real path.
func stateDir(chosen string) (string, error) {
	dir := chosen
	if dir == "" {
		dir = defaultDir
		if err := linkForRoot(dir); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the state directory: %w", err)
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find the state directory: %w", err)
	}
	if os.Geteuid() == 0 && !reachable(dir) {
		return "", fmt.Errorf("the servers run as nobody and cannot enter %s; "+
			"set MYSQL_BROKER_DEV_DIR to a directory that others may enter", dir)
	}
	return dir, nil
}

// linkForRoot makes dir a link to a directory that the servers can enter, if they could not enter dir itself, for
// example below /root.
func linkForRoot(dir string) error {
	_, err := os.Lstat(dir)
	if os.Geteuid() != 0 || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if reachable(filepath.Dir(abs)) {
		return nil
	}
	target := filepath.Join(rootDir, fmt.Sprintf("%x", sha256.Sum256([]byte(abs)))[:12])
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	return os.Symlink(target, dir)
}

// reachable reports whether any user can enter a directory.
func reachable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}
