package client

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// memoryFile returns a file in memory, for a child process: no password stays on a disk, even if this process is
// killed. https://man7.org/linux/man-pages/man2/memfd_create.2.html
func memoryFile(name, content string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	// The clients ignore option files that others can write.
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

// inherited is the path of a child process's nth file, from 0, in its exec.Cmd's ExtraFiles.
func inherited(n int) string { return "/dev/fd/" + strconv.Itoa(3+n) }
