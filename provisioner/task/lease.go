package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"mysql-broker/provisioner/periodic"
	"mysql-broker/store"
)

// lease is the right to work on one task until a deadline on this process's monotonic clock, which is never later
// than the one in PostgreSQL: it counts from before the statement that took or renewed it was sent.
type lease struct {
	held     store.Lease
	ctx      context.Context
	cancel   context.CancelCauseFunc
	expiry   *time.Timer
	deadline time.Time // guarded by Runner.mu
	runner   *Runner
	dropped  chan struct{} // closed when the work under this lease has ended
}

// errRanOut is the loss of a lease that this process did not renew in time.
var errRanOut = fmt.Errorf("it ran out: %w", store.ErrLeaseLost)

// hold starts to watch over a lease that was taken at since. The returned lease's context ends with it. If this
// process lost an earlier lease on the same task, hold returns when the work under that one has ended.
func (r *Runner) hold(parent context.Context, t store.Task, since time.Time) *lease {
	l := &lease{held: store.Lease{ID: t.ID, Epoch: t.Epoch, Adds: r.kinds[t.Kind].Adds}, deadline: since.Add(r.cfg.LeaseTTL), runner: r,
		dropped: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(r.traced(parent, t))
	l.expiry = time.AfterFunc(time.Until(l.deadline), func() { l.cancel(errRanOut) })
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

// drop ends the watch. A task whose end is not recorded is handed back if the broker stops; if it was cancelled, the
// next one is let in. Otherwise the lease is left to run out: whoever claims the task then counts the attempt.
func (r *Runner) drop(l *lease, ended bool) {
	defer close(l.dropped)
	defer trace.SpanFromContext(l.ctx).End()
	cause := context.Cause(l.ctx)
	l.expiry.Stop()
	l.cancel(context.Canceled)
	r.mu.Lock()
	if r.held[l.held.ID] == l {
		delete(r.held, l.held.ID)
	}
	r.mu.Unlock()
	if ended {
		return
	}
	if cause == errRanOut {
		r.cfg.OnRunOut()
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.LeaseTTL/4)
	defer cancel()
	err := r.store.ReleaseCancelled(ctx, l.held.ID, r.owner)
	if cause == errHandover && err == nil {
		err = r.store.ReleaseLease(ctx, l.held)
	}
	if err != nil && !errors.Is(err, store.ErrLeaseLost) {
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
		l.cancel(errRanOut)
		return errRanOut
	}
	return nil
}

// heartbeat renews the leases until ctx ends.
func (r *Runner) heartbeat(ctx context.Context) {
	each := r.cfg.LeaseTTL / 4
	periodic.Run(ctx, periodic.Schedule{Every: each, Delay: each},
		&periodic.Status{What: "lease renewal", Log: r.log}, func(ctx context.Context) error {
			if err := r.renew(ctx); err != nil {
				return err
			}
			return r.mendClock(ctx)
		})
}

// mendClock keeps PostgreSQL's clock from holding tasks up when it is set back. What it finds is never this process's
// own: those leases have just been renewed.
func (r *Runner) mendClock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.LeaseTTL/4)
	defer cancel()
	mended, err := r.store.MendClock(ctx, r.cfg.LeaseTTL, maxBackoff+maxBackoff/4)
	if err != nil {
		return fmt.Errorf("check the leases against the clock: %w", err)
	}
	if mended > 0 {
		r.log.Warn("PostgreSQL's clock was set back; tasks that it would have kept waiting go on", "count", mended)
	}
	return nil
}

// renew renews the leases that are held here. Where it fails, each runs out at its deadline.
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
	renewed, err := r.store.Extend(ctx, r.owner, held, r.cfg.LeaseTTL)
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

// Cancelled tells that a task was cancelled in the store: work on it here stops without waiting for the next heartbeat
// to notice.
func (r *Runner) Cancelled(t store.Task) {
	r.mu.Lock()
	if l, ok := r.held[t.ID]; ok {
		l.cancel(store.ErrLeaseLost)
	}
	r.mu.Unlock()
	r.cfg.OnEnd(t, store.Cancelled)
}
