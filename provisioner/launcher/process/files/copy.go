package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Copy copies a directory tree of plain files for an owner and leaves holes as holes: they are more than half
// of an empty data directory. The copy survives a power failure only after SyncFilesystem.
func Copy(ctx context.Context, from, to string, who Owner) error {
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if entry.IsDir() {
			return who.Mkdir(target)
		}
		return copySparseFile(path, target, who)
	})
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}

func copySparseFile(from, to string, who Owner) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(copyExtents(dst, src), dst.Chown(who.UID, who.GID))
	return errors.Join(err, dst.Close())
}

// copyExtents copies what lseek(2) calls data. On a file system without holes that is everything.
func copyExtents(dst, src *os.File) error {
	info, err := src.Stat()
	if err != nil {
		return err
	}
	if err := dst.Truncate(info.Size()); err != nil {
		return err
	}
	for offset := int64(0); ; {
		start, err := src.Seek(offset, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // nothing but a hole from here to the end
			return nil
		}
		if err != nil {
			return err
		}
		if offset, err = src.Seek(start, unix.SEEK_HOLE); err != nil {
			return err
		}
		if err := copyRange(dst, src, start, offset); err != nil {
			return err
		}
	}
}

func copyRange(dst, src *os.File, start, end int64) error {
	if _, err := src.Seek(start, io.SeekStart); err != nil {
		return err
	}
	if _, err := dst.Seek(start, io.SeekStart); err != nil {
		return err
	}
	_, err := io.CopyN(dst, src, end-start)
	return err
}

// SyncFilesystem writes the file system of dir to disk. One call is much cheaper than an fsync for each of some hundred
// files.
func SyncFilesystem(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync the file system of %s: %w", dir, err)
	}
	return nil
}

// holeSize is the smallest hole: one block of the usual file systems. A page has four blocks; most pages of an empty
// server hold something only in their first block, or in their first and last ones.
const holeSize = 4 << 10

var zeros [holeSize]byte

// DigHoles frees the disk space of blocks that contain only zeros, in all files of a directory tree except the redo
// log: a server cannot continue if there is no space when it writes to its redo log. On file systems without holes it
// frees nothing. https://man7.org/linux/man-pages/man2/fallocate.2.html
func DigHoles(dir string) error {
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
