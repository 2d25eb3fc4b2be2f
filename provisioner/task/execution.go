package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"mysql-broker/provisioner/fault"
	"mysql-broker/store"
)

const (
	inlineAttempts = 3                      // attempts at a step while a request waits
	inlineBackoff  = 100 * time.Millisecond // before the second; doubles
	inlineTime     = 10 * time.Second       // after which no attempt begins, so that the request gets the reason
	maxBackoff     = time.Minute
	// cleanupPatience is how many times more attempts a cleanup step has: a cleanup that is given up leaves an orphan.
	cleanupPatience = 5
)

// undoing precedes the error of the cleanup in LastError.
const undoing = "; undoing it: "

// execution is the work on one task under one lease.
type execution struct {
	runner   *Runner
	lease    *lease
	task     store.Task
	workflow Workflow
	inline   bool // a request waits: no progress is recorded and failures are retried soon
	worker   bool // it has one of the runner's workers
	began    time.Time
	place    string // of the present step in its phase, for users: " (2 of 5)"
	unsaved  bool   // the memory was changed and is not stored yet

	cause error // why the forward phase was given up
	err   error // the outcome: nil if the task succeeded
	given bool  // the lease is given back: the task has ended, or waits for a later attempt
}

// now is Run.Now.
func (x *execution) now() time.Time { return x.task.ReadAt.Add(time.Since(x.lease.since)) }

// work runs the task until it has ended, waits, or the lease is lost.
func (x *execution) work() {
	if x.task.Phase == store.Forward {
		failed, err := x.steps(x.workflow.Steps)
		if err == nil {
			x.finish(store.Succeeded, x.advice(), x.workflow.Durable, func(tx *store.Tx) {
				if x.workflow.Succeeded != nil {
					x.workflow.Succeeded(tx, x.task.Memory)
				}
			})
			return
		}
		if x.interrupted(err) || !x.exhausted(err) {
			x.setBack(err)
			return
		}
		if !x.giveUp(failed, err) {
			return
		}
		if is[*unreachableError](err) && x.inline && len(x.workflow.Cleanup) > 0 {
			x.await(err) // the request does not wait for a second failure
			x.err = &FailedError{Task: x.task, Err: err}
			return
		}
	}
	_, err := x.steps(x.workflow.Cleanup)
	description := x.task.Description
	if err != nil {
		if x.interrupted(err) || !x.exhausted(err) {
			x.setBack(err)
			return
		}
		if description, err = x.leave(err); x.interrupted(err) {
			x.setBack(err)
			return
		}
	}
	x.finish(store.Failed, description, true, func(tx *store.Tx) {
		if x.workflow.Failed != nil {
			x.workflow.Failed(tx, x.task.Memory, err == nil)
		}
	})
}

// leave logs and records why the cleanup was given up, and returns the description for users.
func (x *execution) leave(err error) (description string, _ error) {
	description = x.task.Description
	if x.workflow.NotUndone != nil {
		description = fmt.Sprintf("%s Tell your operator about %s.", x.workflow.NotUndone(x.task.Memory), Token(x.task.ID))
	}
	if kept, ok := errors.AsType[*keepError](err); ok {
		description = kept.sentence
		x.runner.log.LogAttrs(x.lease.ctx, slog.LevelError, "a task failed and was not undone, because that would "+
			"delete data that it did not create; see docs/runbook.md#a-provision-failed-and-its-data-were-kept",
			x.fields(err)...)
	} else {
		x.log("the cleanup of a task failed too often; some of what the task created may remain", err)
	}
	if recording := x.runner.store.Queue.RecordError(x.lease.ctx, x.lease.held, x.lastError(err)); recording != nil {
		x.log("could not record why a task was not undone", recording)
		if errors.Is(recording, store.ErrLeaseLost) {
			return description, recording
		}
	}
	return description, err
}

// steps runs the steps after the last one that is recorded as done. It returns the step that failed.
func (x *execution) steps(steps []Step) (Step, error) {
	first := 1 + slices.IndexFunc(steps, func(s Step) bool { return s.Name == x.task.Step })
	for n := first; n < len(steps); n++ {
		step := steps[n]
		x.place = fmt.Sprintf(" (%d of %d)", n+1, len(steps))
		run := &Run{Task: x.task, execution: x}
		if err := x.step(step, run); err != nil {
			return step, err
		}
		x.task.Step, x.task.Attempt = step.Name, 0
		if x.task.Description == waiting {
			x.task.Description = "" // users read progress again
		}
	}
	return Step{}, nil
}

// step runs one step, up to inlineAttempts times while a request waits.
func (x *execution) step(step Step, run *Run) error {
	if x.task.Attempt >= x.limit() {
		return fmt.Errorf("step %s: %w", step.Name, errCrashes)
	}
	for {
		ctx, span := x.traceStep(step)
		err := x.attempt(ctx, step, run)
		end(span, err)
		if err == nil || x.interrupted(err) {
			return err
		}
		err = fmt.Errorf("step %s: %w", step.Name, err)
		if is[*unreachableError](err) {
			x.runner.servers.silent(x.task.Server)
		}
		if !x.inline || is[*pendingError](err) || x.exhausted(err) || x.task.Attempt+1 >= inlineAttempts ||
			x.awaits(err) {
			return err
		}
		x.log("a step failed; retrying", err)
		x.runner.cfg.OnRetry(x.task)
		x.task.Attempt++
		select {
		case <-x.lease.ctx.Done():
			return context.Cause(x.lease.ctx)
		case <-time.After(inlineBackoff << (x.task.Attempt - 1)):
		}
	}
}

// errCrashes gives up a task whose attempts all ended with a crash or a lost lease.
var errCrashes = errors.New("too many attempts ended with a crash or a lost lease")

// errTimeout ends an attempt that takes longer than its step's Timeout.
var errTimeout = errors.New("the attempt timed out")

// attempt runs a step once. It turns a panic into an error.
func (x *execution) attempt(ctx context.Context, step Step, run *Run) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err := run.Alive(); err != nil {
		return err
	}
	// The description of a waiting task stays until the step is done, and so does what an earlier attempt at this step
	// reported.
	if x.task.Description != waiting && !strings.HasSuffix(x.task.Description, x.place) {
		if err := run.Report(ctx, step.Progress); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(step.Timeout, defaultTimeout), errTimeout)
	defer cancel()
	fault.Point(x.task.Kind, step.Name, "begins")
	if err := step.Do(ctx, run); err != nil {
		if context.Cause(ctx) == errTimeout {
			return fmt.Errorf("%w: %w", errTimeout, err)
		}
		return err
	}
	fault.Point(x.task.Kind, step.Name, "done")
	return nil
}

func (x *execution) progress(ctx context.Context, sentence string, further bool) error {
	if x.inline {
		return nil
	}
	description := sentence + x.place
	if x.task.Phase == store.Cleanup {
		description = x.task.Description // users read the reason during the cleanup
	}
	return x.write(ctx, func() error {
		return x.runner.store.Queue.Progress(ctx, x.lease.held, x.task.Step, description, further)
	})
}

// limit is how many attempts a step of the present phase has.
func (x *execution) limit() int {
	if x.task.Phase == store.Cleanup {
		return x.runner.cfg.Attempts * cleanupPatience
	}
	return x.runner.cfg.Attempts
}

// exhausted reports whether err ends the phase. A cleanup ignores Permanent, because what it leaves is an orphan.
func (x *execution) exhausted(err error) bool {
	forward := x.task.Phase == store.Forward
	switch {
	case mustRequeue(err):
		return false
	case is[*pendingError](err):
		return x.pendingForTooLong()
	case x.awaits(err):
		return x.overdue()
	case is[*keepError](err), is[*abandonError](err), is[*permanentError](err) && forward, errors.Is(err, errCrashes):
		return true
	case x.inline && forward:
		return x.task.Attempt+1 >= inlineAttempts || time.Since(x.began) > inlineTime
	}
	return x.task.Attempt+1 >= x.limit()
}

// interrupted reports whether the worker must stop: its lease is lost, or the broker is stopping.
func (x *execution) interrupted(err error) bool {
	return x.lease.ctx.Err() != nil || errors.Is(err, store.ErrLeaseLost)
}

// setBack leaves the task to a later attempt, by this process or another.
func (x *execution) setBack(err error) {
	if x.interrupted(err) {
		x.err = fmt.Errorf("interrupted: %w", errors.Join(err, context.Cause(x.lease.ctx)))
		x.log("a task was interrupted", x.err)
		return
	}
	if pending, ok := errors.AsType[*pendingError](err); ok {
		x.suspend(pending)
		return
	}
	if x.awaits(err) {
		x.await(err)
		return
	}
	attempts := x.task.Attempt + 1
	if mustRequeue(err) {
		attempts--
	}
	x.postpone(err, attempts)
}

func mustRequeue(err error) bool {
	return is[*requeueError](err) || errors.Is(err, store.ErrHeld) // during a hold, nothing is undone either
}

func (x *execution) postpone(err error, attempts int) {
	x.err = err
	delay := min(x.runner.cfg.Backoff<<min(x.task.Attempt, 10), maxBackoff)
	if requeue, ok := errors.AsType[*requeueError](err); ok && requeue.after > 0 {
		delay = min(requeue.after, maxBackoff)
	}
	// Jitter keeps tasks that failed together from being retried together.
	delay += time.Duration(rand.Int64N(int64(delay)/4 + 1)) // #nosec G404 -- nobody gains by guessing it
	x.log("a step failed; retrying later", err, slog.Int64("delay_ms", delay.Milliseconds()))
	x.runner.cfg.OnRetry(x.task)
	lastError, ctx := x.lastError(err), x.lease.ctx
	x.giveBack("could not postpone a task; it continues when its lease has expired", func() error {
		return x.runner.store.Queue.Postpone(ctx, x.lease.held, delay, attempts, lastError)
	})
}

// giveBack gives the lease back with what write records.
func (x *execution) giveBack(failure string, write func() error) {
	err := x.write(x.lease.ctx, write)
	x.given = err == nil
	if err != nil {
		x.log(failure, err)
	}
}

// lastError is err for operators. During a cleanup, it begins with the reason why the task was given up.
func (x *execution) lastError(err error) string {
	if x.task.Phase != store.Cleanup {
		return err.Error()
	}
	why, _, _ := strings.Cut(x.task.LastError, undoing)
	return why + undoing + err.Error()
}

// giveUp begins the cleanup phase. It reports whether the lease still holds.
func (x *execution) giveUp(failed Step, cause error) bool {
	x.log("a task is given up", cause)
	x.cause = cause
	description := x.sentence(failed, cause)
	if err := x.write(x.lease.ctx, func() error {
		return x.runner.store.Queue.GiveUp(x.lease.ctx, x.lease.held, description, cause.Error())
	}); err != nil {
		x.setBack(err)
		return false
	}
	fault.Point(x.task.Kind, "given up")
	x.task.Phase, x.task.Step, x.task.Attempt = store.Cleanup, "", 0
	x.task.Description, x.task.LastError = description, cause.Error()
	return true
}

// finish records the outcome. If the response to the commit was lost, it reads whether the end was recorded. It goes on
// when the broker stops or the lease is lost: the work is done, and the epoch protects the task of another worker.
func (x *execution) finish(state, description string, durable bool, outcome func(*store.Tx)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.lease.ctx), x.runner.cfg.LeaseTTL)
	defer cancel()
	fault.Point(x.task.Kind, "ending as "+state)
	for {
		err := x.runner.store.Queue.Finish(ctx, x.lease.held, state, description, durable, outcome)
		if errors.Is(err, store.ErrLeaseLost) && x.landed(ctx) {
			err = nil
		}
		if err == nil {
			x.task.State, x.task.Description, x.given = state, description, true
			if state == store.Failed {
				x.err = &FailedError{Task: x.task, Err: x.cause}
				trace.SpanFromContext(x.lease.ctx).SetStatus(codes.Error, x.err.Error())
			}
			x.runner.cfg.OnEnd(x.task, state, x.now().Sub(x.task.CreatedAt))
			fault.Point(x.task.Kind, "ended as "+state)
			return
		}
		if errors.Is(err, store.ErrLeaseLost) || ctx.Err() != nil {
			x.err = fmt.Errorf("record the end: %w", errors.Join(err, store.ErrLeaseLost))
			x.log("the end of a task is not recorded; another worker will record it", x.err)
			return
		}
		x.log("could not record the end of a task; retrying", err)
		select {
		case <-ctx.Done():
		case <-time.After(inlineBackoff):
		}
	}
}

// landed reports whether the task's end was recorded under this lease.
func (x *execution) landed(ctx context.Context) bool {
	t, err := x.runner.store.Tasks.Get(ctx, x.task.ID)
	return err == nil && t.State != store.InProgress && t.Epoch == x.lease.held.Epoch
}

func (x *execution) log(message string, err error, more ...slog.Attr) {
	trace.SpanFromContext(x.lease.ctx).AddEvent(message)
	x.runner.log.LogAttrs(x.lease.ctx, slog.LevelWarn, message, append(x.fields(err), more...)...)
}

// fields are the log fields of the task.
func (x *execution) fields(err error) []slog.Attr {
	return []slog.Attr{slog.String("task", Token(x.task.ID)), slog.String("kind", string(x.task.Kind)),
		slog.String("instance_id", x.task.InstanceID), slog.String("binding_id", x.task.BindingID),
		slog.String("phase", x.task.Phase), slog.String("step", x.task.Step), slog.Int("attempt", x.task.Attempt),
		slog.Any("error", err)}
}
