package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/periodic"
	"mysql-broker/store"
)

// lease is the right to run one task until a deadline on this process's monotonic clock. The deadline is never later
// than the one in PostgreSQL, because it counts from before the statement that took or renewed the lease was sent.
type lease struct {
	held     store.Lease
	ctx      context.Context
	cancel   context.CancelCauseFunc
	expiry   *time.Timer
	since    time.Time
	deadline time.Time // guarded by Runner.mu
	runner   *Runner
	dropped  chan struct{} // closed when no step runs under this lease any more
}

// errRanOut says that this process did not renew a lease in time.
var errRanOut = fmt.Errorf("it expired: %w", store.ErrLeaseLost)

// hold begins to keep a lease that was taken at since. The context of the returned lease ends with the lease. If this
// process lost an earlier lease on the same task, hold waits until no step runs under that one.
func (r *Runner) hold(parent context.Context, t store.Task, since time.Time) *lease {
	held := store.Lease{ID: t.ID, Epoch: t.Epoch, Adds: r.kinds[t.Kind].Adds}
	l := &lease{held: held, since: since, deadline: since.Add(r.cfg.LeaseTTL), runner: r,
		dropped: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(r.traced(parent, t))
	expire := func() { l.cancel(errRanOut) }
	l.expiry = time.AfterFunc(time.Until(l.deadline), expire)
	fault.Lease(since, expire)
	r.mu.Lock()
	earlier := r.held[t.ID]
	r.held[t.ID] = l
	r.mu.Unlock()
	if earlier != nil {
		earlier.cancel(store.ErrLeaseLost)
		<-earlier.dropped
	}
	return l
}

// drop stops keeping a lease. If it was not given back, drop releases it if the broker stops or the task was cancelled.
// Otherwise it lets the lease expire: the next claim then counts an attempt. One that was given back is not released:
// this process may have claimed the task again, and what ReleaseCancelled releases looks the same.
func (r *Runner) drop(l *lease, givenBack bool) {
	defer close(l.dropped)
	defer trace.SpanFromContext(l.ctx).End()
	cause := context.Cause(l.ctx)
	l.expiry.Stop()
	l.cancel(context.Canceled)
	r.mu.Lock()
	superseded := r.held[l.held.ID] != l
	if !superseded {
		delete(r.held, l.held.ID)
	}
	r.mu.Unlock()
	if givenBack {
		return
	}
	if cause == errRanOut {
		r.cfg.OnRunOut()
	}
	if superseded {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.LeaseTTL/4)
	defer cancel()
	err := r.store.Queue.ReleaseCancelled(ctx, l.held, r.owner)
	if cause == errHandover && err == nil {
		err = r.store.Queue.Release(ctx, l.held)
	}
	if err != nil && !errors.Is(err, store.ErrLeaseLost) {
		r.log.Warn("could not release a lease; it expires by itself", "task", Token(l.held.ID), "error", err)
	}
}

func (l *lease) alive() error {
	l.runner.mu.Lock()
	defer l.runner.mu.Unlock()
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if !time.Now().Before(l.deadline) {
		l.cancel(errRanOut)
		return errRanOut
	}
	return nil
}

// heartbeat renews the leases until ctx ends.
func (r *Runner) heartbeat(ctx context.Context) {
	each := r.cfg.LeaseTTL / 4
	periodic.Run(ctx, periodic.Schedule{Every: each, Delay: each}, &periodic.Status{What: "lease renewal", Log: r.log},
		r.renew)
}

// renew renews the leases of this process. If it fails, each expires at its deadline.
func (r *Runner) renew(ctx context.Context) error {
	r.mu.Lock()
	leases := slices.Collect(maps.Values(r.held))
	r.mu.Unlock()
	if len(leases) == 0 {
		return nil
	}
	held := make([]store.Lease, len(leases))
	for i, l := range leases {
		held[i] = l.held
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.LeaseTTL/4)
	defer cancel()
	since := time.Now()
	renewed, err := r.store.Queue.Extend(ctx, r.owner, held, r.cfg.LeaseTTL)
	if err != nil {
		return fmt.Errorf("renew the leases: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range leases {
		if !slices.Contains(renewed, l.held) {
			l.cancel(store.ErrLeaseLost)
			continue
		}
		l.deadline = since.Add(r.cfg.LeaseTTL)
		l.expiry.Reset(time.Until(l.deadline))
	}
	return nil
}

// Cancelled interrupts a task that was cancelled in the store, before the next heartbeat would notice.
func (r *Runner) Cancelled(t store.Task) {
	r.mu.Lock()
	if l, ok := r.held[t.ID]; ok {
		l.cancel(store.ErrLeaseLost)
	}
	r.mu.Unlock()
	r.cfg.OnEnd(t, store.Cancelled, t.ReadAt.Sub(t.CreatedAt))
}
