// Package memory shares the memory that a process may have among the copies, backups and restores that it runs.
package memory

import (
	"context"
	"errors"
	"math"

	"golang.org/x/sync/semaphore"
)

const (
	// idleBytes is what a broker needs that copies nothing.
	idleBytes = 48 << 20
	// leastBytes is what copies get if the limit leaves nothing: the process would copy nothing otherwise.
	leastBytes = 8 << 20
	// copyBytes is what a copy has in memory at most, unless rows are long: two workers with a connection, statements of
	// 1 MiB, and a compressor with an object of 4 to 8 MiB.
	copyBytes = 30 << 20
)

// Budget is the memory for copies. A third is for what each has all the time. The rest is for long rows: a copy has
// bytes of it for one chunk at a time, and waits for nothing else meanwhile, so that copies cannot block each other.
// A nil Budget has no limit.
type Budget struct {
	copies, rows             *semaphore.Weighted
	ofCopy, ofCopies, ofRows int64 // what a copy has, all copies, and all long rows can have
}

// NewBudget divides what a process has that may take limit bytes. It returns nil for a limit of 0, which is none.
func NewBudget(limit int64) *Budget {
	if limit == 0 {
		return nil
	}
	all := max(limit-idleBytes, leastBytes)
	third := all / 3
	return &Budget{copies: semaphore.NewWeighted(third), rows: semaphore.NewWeighted(all - third),
		ofCopy: min(copyBytes, third), ofCopies: third, ofRows: all - third}
}

// Copies is how many copies have room.
func (b *Budget) Copies() int {
	if b == nil {
		return math.MaxInt
	}
	return int(b.ofCopies / b.ofCopy)
}

// Definitions is how many bytes of definitions a copy may have in memory besides; 0 for any number. A backup encodes
// them: then, each is there about five times.
func (b *Budget) Definitions() int64 {
	if b == nil {
		return 0
	}
	return b.ofRows / 16
}

// TryBegin gives a copy its share, until End, if there is one.
func (b *Budget) TryBegin() bool { return b == nil || b.copies.TryAcquire(b.ofCopy) }

// Begin waits for the share of a copy.
func (b *Budget) Begin(ctx context.Context) error {
	if b == nil {
		return nil
	}
	return b.copies.Acquire(ctx, b.ofCopy)
}

// End gives a share back.
func (b *Budget) End() {
	if b != nil {
		b.copies.Release(b.ofCopy)
	}
}

// ErrTooLarge says that long rows need more memory than all copies together may have.
var ErrTooLarge = errors.New("the limit of the broker's memory leaves less than that")

// Reserve gets bytes for long rows, which release gives back. It calls waiting if others have them.
func (b *Budget) Reserve(ctx context.Context, bytes int64, waiting func() error) (release func(), err error) {
	switch {
	case b == nil:
		return func() {}, nil
	case bytes > b.ofRows:
		return nil, ErrTooLarge
	}
	if !b.rows.TryAcquire(bytes) {
		if err := waiting(); err != nil {
			return nil, err
		}
		if err := b.rows.Acquire(ctx, bytes); err != nil {
			return nil, context.Cause(ctx)
		}
	}
	return func() { b.rows.Release(bytes) }, nil
}
