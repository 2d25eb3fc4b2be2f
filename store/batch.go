package store

import (
	"context"
	"time"
)

// batchRows is how many rows one statement of the work in the background reads, changes or removes: in some
// milliseconds, whatever has piled up.
const batchRows = 1000

// rest waits, between two such statements, for as long again as has passed.
func rest(ctx context.Context, since time.Time) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Since(since)):
		return nil
	}
}
