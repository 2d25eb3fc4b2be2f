package main

import "golang.org/x/sys/unix"

// forbidCores keeps this process, and the servers that it starts, from leaving a memory image with passwords when they
// crash. One byte is less than any core may have; of that limit alone, and not of 0, Linux also keeps the image from a
// program in /proc/sys/kernel/core_pattern. https://man7.org/linux/man-pages/man5/core.5.html; do_coredump in
// https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/fs/coredump.c
func forbidCores() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return err
	}
	if limit.Max == 0 { // cannot be raised
		return nil
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
}
