package app

import (
	"context"
	"sync"
	"time"
)

const (
	costlyCount = 100 * time.Millisecond // a count that takes longer is not made at every scrape
	countEach   = time.Minute            // but so often
)

// counter counts, or tells its last count where counting is costly.
type counter[Counts any] struct {
	count func(context.Context) (Counts, error)

	mu     sync.Mutex
	latest Counts
	until  time.Time // when latest is too old to tell
}

// counts returns the figures of now, or those of up to countEach ago.
func (c *counter[Counts]) counts(ctx context.Context) (Counts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := time.Now()
	if since.Before(c.until) {
		return c.latest, nil
	}
	counts, err := c.count(ctx)
	if err == nil && time.Since(since) > costlyCount {
		c.latest, c.until = counts, since.Add(countEach)
	}
	return counts, err
}
