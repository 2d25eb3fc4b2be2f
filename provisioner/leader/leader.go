// Package leader runs work that one broker does for all brokers. That broker holds a lease in PostgreSQL, which another
// broker gets when the first stops or dies.
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"mysql-broker/provisioner/periodic"
	"mysql-broker/store"
)

// Hold is how long the other brokers wait for a leader that died during a run.
const Hold = 15 * time.Second

const (
	keepInterval = Hold / 3
	// retryInterval is the pause after a run that failed, and between attempts to get the lease while PostgreSQL does not
	// answer.
	retryInterval = 5 * time.Second
)

// Work is done by one broker at a time.
type Work struct {
	Store *store.Store
	Log   *slog.Logger
	Lease string // its name in the store, the same for every broker
	What  string // for the log, see periodic.Status
	// Every is the time from the start of a run to the start of the next, on whichever broker, less up to a tenth of it at
	// random. The pause between them is at least as long as the run.
	Every time.Duration
	// Await waits until there may be something to do, or its context ends, before this broker tries to get the lease; nil
	// if there always is.
	Await func(context.Context)
	// Do is one run. Its context ends if the lease is lost.
	Do func(context.Context) error
}

// Run does the work whenever this broker gets the lease, until ctx ends.
func (w Work) Run(ctx context.Context) {
	me := uuid.NewString()
	status := &periodic.Status{What: w.What, Log: w.Log}
	periodic.Loop(ctx, 0, func(ctx context.Context) time.Duration {
		if w.Await != nil {
			if w.Await(ctx); ctx.Err() != nil {
				return 0
			}
		}
		leads, wait, err := w.Store.Leader.Acquire(ctx, w.Lease, me, Hold)
		switch {
		case err != nil:
			return retryInterval // the tasks' runner logs the outage
		case !leads:
			return max(wait, time.Millisecond)
		}
		return w.lead(ctx, me, status)
	})
}

// lead does one run, releases the lease and returns how long to wait before acquiring it again.
func (w Work) lead(ctx context.Context, me string, status *periodic.Status) (wait time.Duration) {
	start := time.Now()
	err := w.run(ctx, me)
	took := time.Since(start)
	// Jitter spreads work that began at the same time: together, it would take more connections to PostgreSQL.
	rest := took
	every := w.Every - time.Duration(rand.Int64N(int64(w.Every)/10+1)) // #nosec G404 -- nobody gains by guessing it
	if ctx.Err() != nil {                                              // another broker may go on at once
		every, rest = 0, 0
	}
	if err != nil {
		every = min(every, retryInterval)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryInterval)
	defer cancel()
	status.Report(ctx, errors.Join(err, w.Store.Leader.Release(ending, w.Lease, me, every, rest)))
	return max(every-took, rest, time.Millisecond)
}

// run calls Do and renews the lease meanwhile.
func (w Work) run(ctx context.Context, me string) error {
	ctx, lose := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() {
		periodic.Loop(ctx, keepInterval, func(ctx context.Context) time.Duration {
			if err := w.Store.Leader.Renew(ctx, w.Lease, me, Hold); err != nil {
				lose(fmt.Errorf("keep the lease: %w", err))
			}
			return keepInterval
		})
	})
	defer keeping.Wait()
	defer lose(nil)
	if err := w.Do(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}
