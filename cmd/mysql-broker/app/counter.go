package app

import (
	"context"
	"sync"
	"time"
)

const (
	costlyCount   = 100 * time.Millisecond // slower counts do not run at every scrape
	countInterval = time.Minute            // but once in this time
)

// counter counts, or returns its last count if counting is slow.
type counter[Counts any] struct {
	count func(context.Context) (Counts, error)

	mu     sync.Mutex
	latest Counts
	until  time.Time // when latest is too old
}

// counts returns current figures, or figures up to countInterval old.
func (c *counter[Counts]) counts(ctx context.Context) (Counts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := time.Now()
	if since.Before(c.until) {
		return c.latest, nil
	}
	counts, err := c.count(ctx)
	if err == nil && time.Since(since) > costlyCount {
		c.latest, c.until = counts, since.Add(countInterval)
	}
	return counts, err
}
