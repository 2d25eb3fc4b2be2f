package dev

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher/process/files"
)

const (
	defaultDir = ".dev"
	// rootDir has root's state if the servers, which do not run as root, cannot enter defaultDir.
	rootDir = "/var/lib/mysql-broker-dev"
)

// stateDir creates the state directory and returns its real path.
func stateDir(chosen string) (string, error) {
	owner, err := files.LookupOwner()
	if err != nil {
		return "", err
	}
	dir := chosen
	if dir == "" {
		dir = defaultDir
		if err := linkForRoot(dir, owner); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the state directory: %w", err)
	}
	dir, err = filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find the state directory: %w", err)
	}
	if err := owner.CheckReach(dir); err != nil {
		return "", fmt.Errorf("%w; set MYSQL_BROKER_DEV_DIR to a directory that others may enter", err)
	}
	if err := tryFiles(dir, owner); err != nil {
		return "", fmt.Errorf("servers cannot keep their files in %s: %w; "+
			"if that is NFS, set MYSQL_BROKER_DEV_DIR to a directory on a local disk", dir, err)
	}
	return dir, checkRoom(dir)
}

// tryFiles does with files what servers do, and what not every file system can.
func tryFiles(dir string, owner files.Owner) error {
	tried, err := os.MkdirTemp(dir, "try")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tried)
	f, err := os.Create(filepath.Join(tried, "lock"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock a file: %w", err)
	}
	if err := f.Chown(owner.UID, owner.GID); err != nil {
		return fmt.Errorf("give a file to the servers: %w", err)
	}
	if err := unix.Mknod(filepath.Join(tried, "socket"), unix.S_IFSOCK|0o600, 0); err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	return nil
}

// firstStart is how much room PostgreSQL and a shared server take at their first start, with some for instances.
const firstStart = 400 << 20

func checkRoom(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, environmentFile)); err == nil {
		return nil // they have been started before
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("ask how much room is left in %s: %w", dir, err)
	}
	if left := disk.Bavail * uint64(disk.Bsize); left < firstStart { // #nosec G115 -- blocks have positive sizes
		return fmt.Errorf("%d MiB are left on the disk of %s, and the first start needs %d: "+
			"free some, or set MYSQL_BROKER_DEV_DIR to a directory on another disk", left>>20, dir, firstStart>>20)
	}
	return nil
}

// linkForRoot makes dir a link to a directory that the servers can enter, if they could not enter dir itself, for
// example below /root.
func linkForRoot(dir string, owner files.Owner) error {
	_, err := os.Lstat(dir)
	if os.Geteuid() != 0 || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if owner.CheckReach(filepath.Dir(abs)) == nil {
		return nil
	}
	target := filepath.Join(rootDir, fmt.Sprintf("%x", sha256.Sum256([]byte(abs)))[:12])
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	return os.Symlink(target, dir)
}
