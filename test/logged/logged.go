// Package logged keeps what is logged while tests read it.
package logged

import (
	"bytes"
	"strings"
	"sync"
)

// Text is a bytes.Buffer for use by several goroutines.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Count returns how often a text was written.
func (t *Text) Count(text string) int { return strings.Count(t.String(), text) }
