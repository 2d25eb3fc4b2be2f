package client

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// memoryFile returns a file that is on no disk, for a process that is started with it: nothing is left of a password in
// it, however this process ends. https://man7.org/linux/man-pages/man2/memfd_create.2.html
func memoryFile(name, content string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	// The clients ignore option files that others may write to.
	if err := f.Chmod(0o600); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	if _, err := f.WriteString(content); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write a file in memory: %w", err)
	}
	return f, nil
}

// inherited is the path by which a process finds the file that is the nth, from 0, of its exec.Cmd's ExtraFiles.
func inherited(n int) string { return "/dev/fd/" + strconv.Itoa(3+n) }
