package task

import (
	"errors"
	"fmt"
	"time"

	"mysql-broker/store"
)

// Pending says that a step has started something that is not finished. The step runs again after a pause, at most a
// minute, in this process or another, and checks whether it is. The pause blocks no worker and does not count as an
// attempt. Users read progress, unless it is empty. After Config.MaxWait the step fails; a cleanup step does after five
// times as long. A request that waits for the task goes on waiting.
func Pending(after time.Duration, progress string) error {
	return &pendingError{after, progress, false}
}

// Queued is Pending for a step that waits for other tasks. It is not stuck if they are not.
func Queued(after time.Duration, progress string) error { return &pendingError{after, progress, true} }

type pendingError struct {
	after    time.Duration
	progress string
	queued   bool
}

func (e *pendingError) Error() string { return fmt.Sprintf("not done yet; try again in %v", e.after) }

// errSuspended makes Do wait for the end of a pending task.
var errSuspended = errors.New("task: pending")

// pendingForTooLong reports whether a pending step fails.
func (x *execution) pendingForTooLong() bool {
	limit := x.runner.cfg.MaxWait(x.task)
	if x.task.Phase == store.Cleanup {
		limit *= cleanupPatience
	}
	return x.now().Sub(x.task.CreatedAt) >= limit
}

// suspend releases the lease until the step runs again.
func (x *execution) suspend(pending *pendingError) {
	x.err = errSuspended
	description := x.task.Description
	if pending.progress != "" {
		description = pending.progress + x.place
	}
	if x.task.Phase == store.Cleanup {
		description = x.task.Description // users read the reason during the cleanup
	}
	delay, ctx := min(pending.after, maxBackoff), x.lease.ctx
	x.giveBack("could not release a pending task; it continues when its lease has expired", func() error {
		return x.runner.store.Queue.Suspend(ctx, x.lease.held, delay, x.task.Step, description, pending.queued)
	})
}
