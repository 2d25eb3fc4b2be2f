package task

import (
	"errors"
	"fmt"
	"time"

	"mysql-broker/store"
)

// Pending says that a step has begun something that goes on by itself: the step is to run again after a pause, in this
// process or another, and looks whether it is done. The pause is a minute at most. No worker is held meanwhile, and it
// counts as no attempt. progress is what users read, unless it is empty. After Config.MaxWait the step has failed; one
// that undoes something is given five times as long. A request that waits for the task goes on waiting.
func Pending(after time.Duration, progress string) error { return &pendingError{after, progress} }

type pendingError struct {
	after    time.Duration
	progress string
}

func (e *pendingError) Error() string { return fmt.Sprintf("not done yet; look again in %v", e.after) }

// errSuspended is what a request gets whose task is pending: it waits for the task's end instead.
var errSuspended = errors.New("task: pending")

func isPending(err error) bool {
	_, pending := errors.AsType[*pendingError](err)
	return pending
}

// pendingForTooLong tells whether a pending step has failed.
func (x *execution) pendingForTooLong() bool {
	limit := x.runner.cfg.MaxWait(x.task)
	if x.task.Phase == store.Cleanup {
		limit *= cleanupPatience
	}
	return time.Since(x.task.CreatedAt) >= limit
}

// suspend gives the task back until its step is to be run again.
func (x *execution) suspend(pending *pendingError) {
	x.err = errSuspended
	description := x.task.Description
	if pending.progress != "" {
		description = pending.progress + x.place
	}
	if x.task.Phase == store.Cleanup {
		description = x.task.Description // the reason stays in view while the work is undone
	}
	delay, ctx := min(pending.after, maxBackoff), x.lease.ctx
	if err := x.write(ctx, func() error {
		return x.runner.store.Suspend(ctx, x.lease.held, delay, x.task.Step, description)
	}); err != nil {
		x.log("could not give a pending task back; it goes on when its lease has run out", err)
	}
}
