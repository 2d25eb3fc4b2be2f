package logging

import (
	"io"
	"runtime"
	"sync"
)

// maxGathered is how many bytes of lines wait to be written before those who log more have to wait too.
const maxGathered = 64 << 10

// writer writes lines in the background, in order and without delay: as many as have gathered by the time that it comes
// to it, with one system call.
type writer struct {
	to io.Writer

	mu       sync.Mutex
	changed  sync.Cond // any of these:
	gathered []byte
	logged   int64 // bytes ever gathered
	written  int64 // how many of them have been written
	closed   bool
	ended    bool // the background: nobody writes but the caller
}

func newWriter(to io.Writer) *writer {
	w := &writer{to: to}
	w.changed.L = &w.mu
	go w.run()
	return w
}

// Write takes a line, and waits where there are too many. It does not fail: a log has nobody to tell.
func (w *writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.gathered) > 0 && len(w.gathered)+len(line) > maxGathered {
		w.changed.Wait()
	}
	if w.ended {
		return w.to.Write(line)
	}
	if len(w.gathered) == 0 {
		w.changed.Broadcast()
	}
	w.gathered = append(w.gathered, line...)
	w.logged += int64(len(line))
	return len(line), nil
}

// flush returns when everything that was logged before is written. It does not wait for what others log meanwhile:
// while they keep on, there may always be something more.
func (w *writer) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for until := w.logged; w.written < until; {
		w.changed.Wait()
	}
}

// close is flush, and ends the background. Later lines are written by their callers.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Broadcast()
	for !w.ended {
		w.changed.Wait()
	}
}

func (w *writer) run() {
	var lines []byte
	for {
		w.await(len(lines))
		runtime.Gosched() // who is about to log does so first
		if lines = w.take(lines[:0]); lines == nil {
			return
		}
		_, _ = w.to.Write(lines) // a log has nobody to tell
	}
}

// await takes note of how many bytes were written, and returns when there is something to do.
func (w *writer) await(written int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written += int64(written)
	w.changed.Broadcast()
	for len(w.gathered) == 0 && !w.closed {
		w.changed.Wait()
	}
}

// take returns the lines to write, and uses the memory of empty for the next ones. It returns nil at the end.
func (w *writer) take(empty []byte) (lines []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.gathered) == 0 {
		w.ended = true
		w.changed.Broadcast()
		return nil
	}
	lines, w.gathered = w.gathered, empty
	return lines
}
