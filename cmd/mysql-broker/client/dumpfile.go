package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// completion begins the last line of every complete dump, of either flavour.
var completion = []byte("-- Dump completed")

// tail keeps the last bytes that are written to it.
type tail struct{ kept []byte }

const tailBytes = 256

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(len(p)-tailBytes, 0):]...)
	t.kept = append(t.kept[:0], t.kept[max(len(t.kept)-tailBytes, 0):]...)
	return len(p), nil
}

// completed reports whether the last line is that of a complete dump.
func (t *tail) completed() bool {
	text := bytes.TrimRight(t.kept, "\r\n ")
	return bytes.HasPrefix(text[bytes.LastIndexByte(text, '\n')+1:], completion)
}

// target receives a dump: a temporary file beside the final one, to which keep renames it, or standard output.
type target struct {
	io.Writer
	path string // "" for standard output
	file *os.File
}

var errTerminal = errors.New("standard output is a terminal: name a file, or redirect it")

func newTarget(path string, out io.Writer) (*target, error) {
	if path == "-" {
		if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return nil, errTerminal
		}
		return &target{Writer: out}, nil
	}
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		resolved, err = path, nil
	}
	if err != nil {
		return nil, err
	}
	if there, err := os.Stat(resolved); err == nil && !there.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file; name none to write to standard output", path)
	}
	file, err := os.CreateTemp(filepath.Dir(resolved), "."+filepath.Base(resolved)+".*.partial")
	if err != nil {
		return nil, fmt.Errorf("the dump cannot be written: %w", err)
	}
	return &target{Writer: file, path: resolved, file: file}, nil
}

// keep renames the dump to its name when it is on disk.
func (t *target) keep() error {
	if t.file == nil {
		return nil
	}
	if err := errors.Join(t.file.Sync(), t.file.Close()); err != nil {
		return fmt.Errorf("the dump cannot be written: %w", err)
	}
	if err := os.Rename(t.file.Name(), t.path); err != nil {
		return fmt.Errorf("the dump cannot be written: %w", err)
	}
	t.file = nil
	dir, err := os.Open(filepath.Dir(t.path))
	if err != nil {
		return fmt.Errorf("the dump's directory: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// discard removes a file that was not kept.
func (t *target) discard() {
	if t.file != nil {
		_, _ = t.file.Close(), os.Remove(t.file.Name())
	}
}

// counter counts the bytes that are written to it.
type counter struct{ n atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// showInterval is how often a terminal shows the progress of a dump or restore.
const showInterval = 200 * time.Millisecond

// counting shows the number of counted bytes on a terminal, and the total unless it is 0, until stop is called.
func (s *session) counting(title string, total int64) (c *counter, stop func()) {
	c = &counter{}
	if s.progress.terminal == nil {
		return c, func() {}
	}
	s.progress.begin(title)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(showInterval)
		defer tick.Stop()
		for {
			text := mebibytes(c.n.Load())
			if total > 0 {
				text = fmt.Sprintf("%s of %s", text, mebibytes(total))
			}
			s.progress.draw(text)
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	return c, sync.OnceFunc(func() {
		close(done)
		<-ended
		s.progress.end()
	})
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
