package process

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process/files"
)

// diskFull are the words by which programs of either flavour report a full disk: the system's text in the locale C, or
// its number. 28 is ENOSPC.
var diskFull = []string{"No space left on device", "OS error code 28", "Errcode: 28", "error number 28",
	"failed with error 28", "operating system error 28", "Disk is full"}

// startSpaceMB is more than a server writes while it starts: settings, and temporary tablespaces of up to 12 MiB. A
// redo log of a different size needs its own size in addition.
const startSpaceMB = 64

// isFull reports whether the disk of a directory has no room to start a server again.
func isFull(dir string) (bool, error) {
	free, err := files.SpaceLeft(dir)
	return err == nil && free < startSpaceMB<<20, err
}

// roomToStart returns an error if the disk is too full to start the server again with memoryMB. A running server must
// not be stopped then.
func roomToStart(dir string, st state, memoryMB int) error {
	needed := startSpaceMB
	next := st
	next.MemoryMB = memoryMB
	if redo := next.redoLogMB(); redo != st.redoLogMB() {
		needed += redo
	}
	free, err := files.SpaceLeft(dir)
	if err == nil && free < uint64(needed)<<20 {
		return fmt.Errorf("%w: %d MiB are left at %s, %d are needed to start the server again", launcher.ErrNoRoom,
			free>>20, dir, needed)
	}
	return err
}

// roomToLaunch returns an error if the disk has no room for a new server: what is copied, its redo log, and what it
// writes as it starts.
func (l *Launcher) roomToLaunch(sd serverDir, st state, program mysqld.Binary) error {
	template, err := files.SpaceTaken(l.templates.path(program)) // nothing if it is still to be made
	if err != nil {
		return fmt.Errorf("measure what new servers are copied from: %w", err)
	}
	needed := template>>20 + uint64(st.redoLogMB()) + startSpaceMB // #nosec G115 -- it is not negative
	free, err := files.SpaceLeft(sd.dir)
	if err == nil && free < needed<<20 {
		return fmt.Errorf("%w on the disk: %d MiB are left at %s, %d are needed for server %s", launcher.ErrNoRoom, free>>20,
			sd.dir, needed, sd.id)
	}
	return err
}

// accountSpaceMB must be left for changes of accounts. On a full disk, they damage the tables of accounts of MariaDB.
const accountSpaceMB = 16

// Room implements launcher.Roomer.
func (l *Launcher) Room() error {
	free, err := files.SpaceLeft(l.run.cfg.Dir)
	if err == nil && free < accountSpaceMB<<20 {
		return fmt.Errorf("%w on the disk: %d MiB are left at %s", launcher.ErrNoRoom, free>>20, l.run.cfg.Dir)
	}
	return err
}

// explainNoRoom turns an error into a launcher.NoRoom if it says so or was caused by a full disk, whether the broker's
// own write failed or a program logged it.
func explainNoRoom(err error) error {
	switch {
	case errors.Is(err, launcher.ErrNoRoom):
		return launcher.NoRoom(err)
	case err != nil && saysDiskFull(err):
		return launcher.NoRoom(fmt.Errorf("%w on the disk: %w", launcher.ErrNoRoom, err))
	}
	return err
}

func saysDiskFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) ||
		slices.ContainsFunc(diskFull, func(words string) bool { return strings.Contains(err.Error(), words) })
}
