package task

import (
	"context"
	"time"
)

// maxDelay is more than any task is postponed.
const maxDelay = maxBackoff + maxBackoff/4

// followAgenda has done what is due, and sleeps until the next is due, or may be.
func (r *Runner) followAgenda() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.claiming.Done():
			return
		case <-r.stir:
		case <-timer.C:
		}
		pause := r.readAgenda()
		select { // much may change at the same time
		case <-r.claiming.Done():
			return
		case <-time.After(r.cfg.Poll):
		}
		timer.Reset(pause - r.cfg.Poll)
	}
}

// readAgenda reads what is due, has it done, and returns when to read it again.
func (r *Runner) readAgenda() time.Duration {
	ctx, cancel := context.WithTimeout(r.claiming, r.cfg.LeaseTTL/4)
	defer cancel()
	due, err := r.store.Queue.Agenda(ctx, r.cfg.LeaseTTL, maxDelay)
	if err != nil {
		r.Nudge() // dispatch meets the same error, reports it, and nudges again when that is over
		return r.cfg.LeaseTTL / 4
	}
	if due.ClockSetBack {
		r.mendClock(ctx)
	}
	pause := r.cfg.LeaseTTL / 4
	if !r.store.Hears() {
		pause = r.cfg.Poll
	}
	if due.Task != nil {
		pause = min(pause, *due.Task)
		if *due.Task <= 0 {
			r.Nudge()
		}
	}
	if due.Expiry != nil {
		if *due.Expiry <= 0 {
			r.cfg.OnExpiry()
		} else {
			pause = min(pause, *due.Expiry)
		}
	}
	return max(pause, r.cfg.Poll)
}

// mendClock keeps tasks from waiting for too long after PostgreSQL's clock was set back. No lease gets shorter than its
// worker counts on.
func (r *Runner) mendClock(ctx context.Context) {
	mended, err := r.store.Queue.MendClock(ctx, r.cfg.LeaseTTL, maxDelay)
	if err != nil {
		r.log.Warn("could not shorten leases and waiting times after PostgreSQL's clock was set back; retrying",
			"error", err)
	} else if mended > 0 {
		r.log.Warn("PostgreSQL's clock was set back; leases and waiting times were shortened", "count", mended)
	}
}
