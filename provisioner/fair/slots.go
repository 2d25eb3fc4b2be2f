package fair

import (
	"context"
	"slices"
	"sync"
)

// Slots are the slots of a pool for which one waits. A free one goes to the organization that holds the fewest, and
// among those to the one that has waited longest. Make them with NewSlots.
type Slots struct {
	mu      sync.Mutex
	pool    Pool
	waiting []*waiter // in the order in which they came
}

type waiter struct {
	of    Holder
	given chan struct{} // closed once it has its slot
}

// NewSlots returns so many free slots.
func NewSlots(n int) *Slots { return &Slots{pool: Pool{All: n}} }

// Take waits for a slot for an organization, or until ctx ends. The caller calls free once.
func (s *Slots) Take(ctx context.Context, organization string) (free func(), err error) {
	w := &waiter{Holder{Organization: organization}, make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.give()
	s.mu.Unlock()
	free = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pool.Free(w.of)
		s.give()
	}
	select {
	case <-w.given:
		return free, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	n := slices.Index(s.waiting, w)
	if n >= 0 {
		s.waiting = slices.Delete(s.waiting, n, n+1)
	}
	s.mu.Unlock()
	if n < 0 { // it was given meanwhile
		free()
	}
	return nil, context.Cause(ctx)
}

// give gives free slots to those who wait. The caller holds mu.
func (s *Slots) give() {
	for {
		next := -1
		for n, w := range s.waiting {
			if s.pool.Room(w.of) && (next < 0 || s.of(w) < s.of(s.waiting[next])) {
				next = n
			}
		}
		if next < 0 {
			return
		}
		s.pool.Take(s.waiting[next].of)
		close(s.waiting[next].given)
		s.waiting = slices.Delete(s.waiting, next, next+1)
	}
}

// of returns how many slots the organization of a waiter holds; work of none counts as that of a new one.
func (s *Slots) of(w *waiter) int {
	if w.of.Organization == "" {
		return 0
	}
	return s.pool.Held(w.of)
}
