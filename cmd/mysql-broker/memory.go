package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const corePattern = "/proc/sys/kernel/core_pattern"

// forbidCores keeps this process, and the servers that it starts, from leaving a memory image with passwords when they
// crash. One byte is less than any core may have; of that limit alone, and not of 0, Linux also keeps the image from a
// program that pattern, a file like corePattern, names after a "|". Where the limit is 0 and may not be raised, that is
// an error. https://man7.org/linux/man-pages/man5/core.5.html; do_coredump in
// https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/fs/coredump.c
func forbidCores(pattern string) error {
	err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	program, err := os.ReadFile(pattern)
	if err == nil && bytes.HasPrefix(program, []byte("|")) {
		err = fmt.Errorf("their limit is 0 and cannot be raised to 1, and %s names a program that gets them in spite of 0",
			pattern)
	}
	return err
}

// becomeUnreadable keeps other processes of this user, among them servers that it starts under an account of its own
// other than root's, from reading its memory and, in /proc, its environment. Programs that it executes are not
// affected.
// https://man7.org/linux/man-pages/man2/PR_SET_DUMPABLE.2const.html
func becomeUnreadable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
