package main

import "golang.org/x/sys/unix"

// becomeUnreadable keeps other processes of this user, among them servers that it starts under an account of its own
// other than root's, from reading its memory and, in /proc, its environment. Programs that it executes are not
// affected.
// https://man7.org/linux/man-pages/man2/PR_SET_DUMPABLE.2const.html
func becomeUnreadable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
