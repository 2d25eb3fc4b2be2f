package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const corePattern = "/proc/sys/kernel/core_pattern"

// forbidCores prevents core dumps, which contain passwords, of this process and of the servers that it starts. The
// limit is one byte, less than any core has. With a limit of 1, but not with 0, Linux also sends no core to a program
// that pattern, a file like corePattern, names after a "|". It is an error if such a program is set, and the limit is 0
// and cannot be raised. https://man7.org/linux/man-pages/man5/core.5.html; do_coredump in
// https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/fs/coredump.c
func forbidCores(pattern string) error {
	err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	program, err := os.ReadFile(pattern)
	if err == nil && bytes.HasPrefix(program, []byte("|")) {
		err = fmt.Errorf("their limit is 0 and cannot be raised to 1, and %s names a program that gets them despite the 0",
			pattern)
	}
	return err
}

// becomeUnreadable prevents other processes of this user from reading its memory and, in /proc, its environment.
// Dedicated servers are among them if the broker does not run as root. Programs that this process executes are not
// affected.
// https://man7.org/linux/man-pages/man2/PR_SET_DUMPABLE.2const.html
func becomeUnreadable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
