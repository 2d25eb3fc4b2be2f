package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Directory keeps each object as a file, for which all brokers need the same directory: that of one host, or a network
// file system. A file appears under its name when it is complete and on the disk.
type Directory struct{ root string }

// OpenDirectory prepares the use of a directory, without I/O. It is never created: what should be mounted there may be
// missing. Only the broker's user can read what is in it.
func OpenDirectory(root string) *Directory { return &Directory{root} }

func (d *Directory) String() string { return "file://" + d.root }

func (d *Directory) Put(_ context.Context, name string, data []byte) error {
	return explain(d, "write", name, d.write(name, data, os.Rename))
}

func (d *Directory) Create(_ context.Context, name string, data []byte) error {
	err := d.write(name, data, os.Link)
	if errors.Is(err, fs.ErrExist) {
		err = ErrExists
	}
	return explain(d, "create", name, err)
}

// write writes a file under another name, and then calls publish, which gives it its own.
func (d *Directory) write(name string, data []byte, publish func(from, to string) error) (err error) {
	to := filepath.Join(d.root, name)
	if _, err := os.Stat(d.root); err != nil {
		return err
	}
	// A Delete may remove the directory before the file is in it.
	var f *os.File
	for range 3 {
		if err = os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if f, err = os.CreateTemp(filepath.Dir(to), unfinished+"*"); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	defer func() {
		if removing := os.Remove(f.Name()); err == nil && !errors.Is(removing, fs.ErrNotExist) {
			err = removing
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := publish(f.Name(), to); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(to))
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (d *Directory) Get(_ context.Context, name string, max int64) ([]byte, error) {
	f, err := os.Open(filepath.Join(d.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, explain(d, "read", name, err)
	}
	defer f.Close()
	data, err := readAll(f, max)
	if errors.Is(err, syscall.EISDIR) {
		err = ErrNotFound
	}
	return data, explain(d, "read", name, err)
}

// knownBytes is up to which size callers give the size as max. Only for that, memory is taken at once.
const knownBytes = 128 << 20

// readAll reads at most max bytes.
func readAll(r io.Reader, max int64) ([]byte, error) {
	var buffer bytes.Buffer
	if max <= knownBytes {
		buffer.Grow(int(max) + 1 + bytes.MinRead) // else it would grow to twice the size
	}
	_, err := buffer.ReadFrom(io.LimitReader(r, max+1))
	data := buffer.Bytes()
	if err == nil && int64(len(data)) > max {
		err = fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, max)
	}
	return data, err
}

func (d *Directory) List(_ context.Context, prefix string, fn func(name string) error) error {
	start := filepath.Join(d.root, path.Dir(prefix+"x"))
	err := filepath.WalkDir(start, func(file string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(d.root, file)
		if err != nil || !strings.HasPrefix(filepath.ToSlash(name), prefix) {
			return err
		}
		return fn(filepath.ToSlash(name))
	})
	return explain(d, "list", prefix, err)
}

// Delete also removes the directories that are empty then.
func (d *Directory) Delete(_ context.Context, name string) error {
	err := os.Remove(filepath.Join(d.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for dir := path.Dir(name); err == nil && dir != "."; dir = path.Dir(dir) {
		if os.Remove(filepath.Join(d.root, dir)) != nil { // it is not empty
			break
		}
	}
	return explain(d, "delete", name, err)
}
