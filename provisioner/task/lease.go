package task

import (
	"context"
	"time"

	"mysql-broker/store"
)

// lease is the right to work on one task until a deadline on this process's monotonic clock, which is never later
// than the one in PostgreSQL: it counts from before the statement that took or renewed it was sent.
type lease struct {
	held   store.Held
	ctx    context.Context
	cancel context.CancelCauseFunc
	expiry *time.Timer
	// guarded by Runner.mu
	since    time.Time
	deadline time.Time
	runner   *Runner
}

// hold starts to watch over a lease that was taken at since. The returned lease's context ends with it.
func (r *Runner) hold(parent context.Context, h store.Held, since time.Time) *lease {
	l := &lease{held: h, since: since, deadline: since.Add(r.cfg.LeaseTTL), runner: r}
	l.ctx, l.cancel = context.WithCancelCause(parent)
	l.expiry = time.AfterFunc(time.Until(l.deadline), func() { l.cancel(store.ErrLeaseLost) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[h.ID] = l
	return l
}

// drop ends the watch and tells PostgreSQL that the task is free, unless its end was recorded already.
func (r *Runner) drop(l *lease, ended bool) {
	l.expiry.Stop()
	l.cancel(context.Canceled)
	r.mu.Lock()
	delete(r.held, l.held.ID)
	r.mu.Unlock()
	if ended {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.LeaseTTL/4)
	defer cancel()
	if err := r.store.Release(ctx, l.held.ID, r.owner); err != nil {
		r.log.Warn("could not give a lease back; it runs out by itself", "task", Token(l.held.ID), "error", err)
	}
}

func (l *lease) alive() error {
	l.runner.mu.Lock()
	defer l.runner.mu.Unlock()
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if !time.Now().Before(l.deadline) {
		return store.ErrLeaseLost
	}
	return nil
}

// heartbeat renews the leases until ctx ends.
func (r *Runner) heartbeat(ctx context.Context) {
	tick := time.NewTicker(r.cfg.LeaseTTL / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.renew(ctx)
		}
	}
}

func (r *Runner) renew(ctx context.Context) {
	r.mu.Lock()
	idle := len(r.held) == 0
	r.mu.Unlock()
	if idle {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.LeaseTTL/4)
	defer cancel()
	since := time.Now()
	renewed, err := r.store.Extend(ctx, r.owner, r.cfg.LeaseTTL)
	if err != nil {
		r.log.Warn("could not renew the leases", "error", err)
		return // each runs out at its deadline
	}
	epochs := make(map[int64]int64, len(renewed))
	for _, h := range renewed {
		epochs[h.ID] = h.Epoch
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, l := range r.held {
		switch {
		case epochs[id] == l.held.Epoch:
			l.deadline = since.Add(r.cfg.LeaseTTL)
			l.expiry.Reset(time.Until(l.deadline))
		case l.since.Before(since):
			l.cancel(store.ErrLeaseLost)
		}
	}
}

// Interrupt stops work here on a task that was cancelled in the store, without waiting for the next heartbeat to
// notice.
func (r *Runner) Interrupt(id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.held[id]; ok {
		l.cancel(store.ErrLeaseLost)
	}
}
