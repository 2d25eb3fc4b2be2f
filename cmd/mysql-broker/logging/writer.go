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
	writing  bool
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
	return len(line), nil
}

// flush returns when everything that was logged before is written.
func (w *writer) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.gathered) > 0 || w.writing {
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
		w.await()
		runtime.Gosched() // who is about to log does so first
		if lines = w.take(lines[:0]); lines == nil {
			return
		}
		_, _ = w.to.Write(lines) // a log has nobody to tell
	}
}

// await returns when there is something to do. What was taken before is written.
func (w *writer) await() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = false
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
	lines, w.gathered, w.writing = w.gathered, empty, true
	return lines
}
