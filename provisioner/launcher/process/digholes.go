package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// holeSize is the smallest hole: one block of the usual file systems. A page has four blocks; most pages of an empty
// server hold something only in their first block, or in their first and last ones.
const holeSize = 4 << 10

var zeros [holeSize]byte

// digHoles frees the disk space of blocks that contain only zeros, in all files of a directory tree except the redo
// log: a server cannot continue if there is no space when it writes to its redo log. On file systems without holes it
// frees nothing. https://man7.org/linux/man-pages/man2/fallocate.2.html
func digHoles(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(path, "/#innodb_redo/") || entry.Name() == "ib_logfile0" {
			return err
		}
		if err := digHolesIn(path); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("dig holes in %s: %w", path, err)
		}
		return nil
	})
}

func digHolesIn(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, holeSize)
	for offset := int64(0); ; offset += holeSize {
		_, err := io.ReadFull(f, block)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if [holeSize]byte(block) != zeros {
			continue
		}
		const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		if err := unix.Fallocate(int(f.Fd()), punch, offset, holeSize); err != nil {
			return err
		}
	}
}
