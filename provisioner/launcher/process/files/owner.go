package files

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Owner is the account that owns the servers' processes and data.
type Owner struct {
	name     string
	UID, GID int
}

// unprivileged is the account that servers run as if the broker is root, because mysqld refuses to run as root.
const unprivileged = "nobody"

// LookupOwner returns the account that servers run as: unprivileged if the broker is root, otherwise the broker's own.
func LookupOwner() (Owner, error) {
	if os.Geteuid() != 0 {
		return Owner{name: "uid " + strconv.Itoa(os.Geteuid()), UID: os.Geteuid(), GID: os.Getegid()}, nil
	}
	u, err := user.Lookup(unprivileged)
	if err != nil {
		return Owner{}, fmt.Errorf("account to run servers as: %w", err)
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	if uidErr != nil || gidErr != nil || uid == 0 {
		return Owner{}, fmt.Errorf("account to run servers as: %q cannot be used, as mysqld refuses to run as root",
			unprivileged)
	}
	return Owner{name: unprivileged, UID: uid, GID: gid}, nil
}

// Attributes start a process as the owner, in its own session, so that no signal to the broker reaches it.
func (o Owner) Attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)}
	}
	return attr
}

// Mkdir creates a directory that only the owner may enter.
func (o Owner) Mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chown(dir, o.UID, o.GID)
}

// CheckReach returns an error unless the owner may pass through dir and every directory above it. If the owner is the
// broker's own account, it has just created dir, so it may.
func (o Owner) CheckReach(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if !o.mayPass(info) {
			return fmt.Errorf("servers run as %s, who may not enter %s (mode %v)",
				o.name, dir, info.Mode().Perm())
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

func (o Owner) mayPass(info os.FileInfo) bool {
	execute := os.FileMode(0o001)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		switch {
		case int(st.Uid) == o.UID:
			execute = 0o100
		case int(st.Gid) == o.GID:
			execute = 0o010
		}
	}
	return info.Mode()&execute != 0
}

// WriteSecret writes and syncs a file that only the owner can read.
func (o Owner) WriteSecret(path string, content []byte) error {
	if err := Write(path, content, 0o600); err != nil {
		return err
	}
	return os.Chown(path, o.UID, o.GID)
}
