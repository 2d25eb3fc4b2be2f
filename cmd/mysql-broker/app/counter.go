package app

import (
	"context"
	"sync"
	"time"

	"mysql-broker/store"
)

const (
	costlyCount = 100 * time.Millisecond // a count that takes longer is not made at every scrape
	countEach   = time.Minute            // but so often
)

// counter counts instances and bindings, or tells its last count where counting is costly.
type counter struct {
	count func(context.Context) (store.Counts, error)

	mu     sync.Mutex
	latest store.Counts
	until  time.Time // when latest is too old to tell
}

// counts returns the figures of now, or those of up to countEach ago.
func (c *counter) counts(ctx context.Context) (store.Counts, error) {
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
