package process

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// unfinished is the suffix of what is being made and must not be used.
const unfinished = ".unfinished"

// traversable is the mode of directories that belong to the broker and that servers pass through, but cannot list.
const traversable = 0o711

// owner is the account that owns the servers' processes and data.
type owner struct {
	name     string
	uid, gid int
}

// unprivileged is the account that servers run as if the broker is root, because mysqld refuses to run as root.
const unprivileged = "nobody"

// lookupOwner returns the account that servers run as: unprivileged if the broker is root, otherwise the broker's own.
func lookupOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{name: "uid " + strconv.Itoa(os.Geteuid()), uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	u, err := user.Lookup(unprivileged)
	if err != nil {
		return owner{}, fmt.Errorf("account to run servers as: %w", err)
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	if uidErr != nil || gidErr != nil || uid == 0 {
		return owner{}, fmt.Errorf("account to run servers as: %q cannot be used, as mysqld refuses to run as root",
			unprivileged)
	}
	return owner{name: unprivileged, uid: uid, gid: gid}, nil
}

// attributes start a process as the owner, in its own session, so that no signal to the broker reaches it.
func (o owner) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	return attr
}

// mkdir creates a directory that only the owner may enter.
func (o owner) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chown(dir, o.uid, o.gid)
}

// checkReach returns an error unless the owner may pass through dir and every directory above it. If the owner is the
// broker's own account, it has just created dir, so it may.
func (o owner) checkReach(dir string) error {
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

func (o owner) mayPass(info os.FileInfo) bool {
	execute := os.FileMode(0o001)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		switch {
		case int(st.Uid) == o.uid:
			execute = 0o100
		case int(st.Gid) == o.gid:
			execute = 0o010
		}
	}
	return info.Mode()&execute != 0
}

// writeSecret writes and syncs a file that only the owner can read.
func (o owner) writeSecret(path string, content []byte) error {
	if err := writeSynced(path, content, 0o600); err != nil {
		return err
	}
	return os.Chown(path, o.uid, o.gid)
}
