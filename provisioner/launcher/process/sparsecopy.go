package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// copySparse copies a directory tree of plain files for an owner and leaves holes as holes: they are more than half
// of an empty data directory. The copy survives a power failure only after syncFilesystem.
func copySparse(ctx context.Context, from, to string, who owner) error {
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
			return who.mkdir(target)
		}
		return copySparseFile(path, target, who)
	})
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}

func copySparseFile(from, to string, who owner) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(copyExtents(dst, src), dst.Chown(who.uid, who.gid))
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

// syncFilesystem writes the file system of dir to disk. One call is much cheaper than an fsync for each of some hundred
// files.
func syncFilesystem(dir string) error {
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
