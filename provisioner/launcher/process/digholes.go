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

// holeSize is the least that becomes a hole: a block of the usual file systems. Most pages of an empty server, which
// are four times as large, hold something only in their first block, or in their first and last ones.
const holeSize = 4 << 10

var zeros [holeSize]byte

// digHoles gives back the disk space of blocks that hold nothing but zeros, in all files of a directory tree but the
// redo log: a server could not go on if there were no space when it comes to write that. File systems that know no
// holes keep the space. https://man7.org/linux/man-pages/man2/fallocate.2.html
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
