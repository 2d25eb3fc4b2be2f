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
	inlineAttempts = 3                      // tries of a step while a request waits
	inlineBackoff  = 100 * time.Millisecond // before the second of them; doubles
	inlineTime     = 10 * time.Second       // after which none is begun: whoever waits is to be told the reason
	maxBackoff     = time.Minute
	// Undoing is worth more patience than doing: what is left behind when it is given up is an orphan.
	cleanupPatience = 5
)

// undoing divides a LastError: behind it stands what the cleanup failed with.
const undoing = "; undoing it: "

// execution is the work on one task under one lease.
type execution struct {
	runner   *Runner
	lease    *lease
	task     store.Task
	workflow Workflow
	inline   bool // a request waits: no progress is recorded and failures are tried again soon
	began    time.Time
	place    string // of the present step among all of the phase, for users
	unsaved  bool   // the task remembers what is not stored yet

	cause error // why the forward phase was given up
	err   error // outcome: nil if the task succeeded
	ended bool  // the task's end is recorded
}

// work goes on until the task has ended, is postponed, or the lease is lost.
func (x *execution) work() {
	if x.task.Phase == store.Forward {
		failed, err := x.steps(x.workflow.Steps)
		if err == nil {
			x.finish(store.Succeeded, "", x.workflow.Durable, func(tx *store.Tx) {
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
		if isUnreachable(err) && x.inline && len(x.workflow.Cleanup) > 0 {
			x.await(err) // the request is not kept waiting to find out the same once more
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
			x.workflow.Failed(tx, err == nil)
		}
	})
}

// leave tells operators why something is not undone, and returns what users are told.
func (x *execution) leave(err error) (description string, _ error) {
	description = x.task.Description
	if kept, ok := errors.AsType[*keepError](err); ok {
		description = kept.sentence
		x.runner.log.LogAttrs(x.lease.ctx, slog.LevelError, "a task failed, and what it was to undo is kept: it is "+
			"more than the task made; see docs/runbook.md#a-provision-failed-and-its-data-were-kept", x.fields(err)...)
	} else {
		x.log("gave up undoing a task; what it made may be left over", err)
	}
	if noting := x.runner.store.NoteError(x.lease.ctx, x.lease.held, x.lastError(err)); noting != nil {
		x.log("could not record why a task was not undone", noting)
		if errors.Is(noting, store.ErrLeaseLost) {
			return description, noting
		}
	}
	return description, err
}

// steps works through the steps after the last one that is recorded as done. It returns the step that failed.
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
			x.task.Description = "" // from the next step on, users read of progress again
		}
	}
	return Step{}, nil
}

// step runs one step; while a request waits, up to inlineAttempts times.
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
		if isUnreachable(err) {
			x.runner.servers.silent(x.task.Server)
		}
		if !x.inline || isPending(err) || x.exhausted(err) || x.task.Attempt+1 >= inlineAttempts || x.awaits(err) {
			return err
		}
		x.log("a step failed; trying again", err)
		x.runner.cfg.OnRetry(x.task)
		x.task.Attempt++
		select {
		case <-x.lease.ctx.Done():
			return context.Cause(x.lease.ctx)
		case <-time.After(inlineBackoff << (x.task.Attempt - 1)):
		}
	}
}

// errCrashes ends a task whose step was never seen to fail, only to take its process down, or to outlive its lease.
var errCrashes = errors.New("tried too often")

// errTimeout ends an attempt that took longer than its step may.
var errTimeout = errors.New("it took too long and was ended")

// attempt runs a step once. A panic is a failure of the step, not of the broker.
func (x *execution) attempt(ctx context.Context, step Step, run *Run) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err := run.Alive(); err != nil {
		return err
	}
	// What users read of a server that does not answer, they read until the step is done; and of this step, they may have
	// read more in an earlier attempt.
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

func (x *execution) progress(ctx context.Context, sentence string) error {
	if x.inline {
		return nil
	}
	description := sentence + x.place
	if x.task.Phase == store.Cleanup {
		description = x.task.Description // the reason stays in view while the work is undone
	}
	return x.write(ctx, func() error { return x.runner.store.Progress(ctx, x.lease.held, x.task.Step, description) })
}

// limit is how often a step of the present phase is tried.
func (x *execution) limit() int {
	if x.task.Phase == store.Cleanup {
		return x.runner.cfg.Attempts * cleanupPatience
	}
	return x.runner.cfg.Attempts
}

// exhausted tells whether err ends the phase. Nothing is permanent to a cleanup: what it leaves is nobody's.
func (x *execution) exhausted(err error) bool {
	if mustRequeue(err) {
		return false
	}
	if isPending(err) {
		return x.pendingForTooLong()
	}
	if x.awaits(err) {
		return x.overdue()
	}
	if _, keep := errors.AsType[*keepError](err); keep {
		return true
	}
	if _, permanent := errors.AsType[*permanentError](err); permanent && x.task.Phase == store.Forward {
		return true
	}
	if errors.Is(err, errCrashes) {
		return true
	}
	if x.inline && x.task.Phase == store.Forward {
		return x.task.Attempt+1 >= inlineAttempts || time.Since(x.began) > inlineTime
	}
	return x.task.Attempt+1 >= x.limit()
}

// interrupted tells whether the worker must let the task go: its lease is lost, or the broker is stopping.
func (x *execution) interrupted(err error) bool {
	return x.lease.ctx.Err() != nil || errors.Is(err, store.ErrLeaseLost)
}

// setBack leaves the task to be gone on with later, by this process or another.
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
	_, elsewhere := errors.AsType[*requeueError](err)
	return elsewhere || errors.Is(err, store.ErrHeld) // nothing is undone either
}

func (x *execution) postpone(err error, attempts int) {
	x.err = err
	delay := min(x.runner.cfg.Backoff<<min(x.task.Attempt, 10), maxBackoff)
	// So that tasks that failed together do not return together.
	delay += time.Duration(rand.Int64N(int64(delay)/4 + 1)) // #nosec G404 -- nobody gains by guessing it
	x.log("a step failed; trying again later", err, slog.Int64("delay_ms", delay.Milliseconds()))
	x.runner.cfg.OnRetry(x.task)
	lastError, ctx := x.lastError(err), x.lease.ctx
	if err := x.write(ctx, func() error {
		return x.runner.store.Postpone(ctx, x.lease.held, delay, attempts, lastError)
	}); err != nil {
		x.log("could not postpone a task; it goes on when its lease has run out", err)
	}
}

// lastError is what operators read of err. Of a task that is being undone, they first read why it was given up.
func (x *execution) lastError(err error) string {
	if x.task.Phase != store.Cleanup {
		return err.Error()
	}
	why, _, _ := strings.Cut(x.task.LastError, undoing)
	return why + undoing + err.Error()
}

// giveUp turns to the cleanup phase and reports whether the task is still held.
func (x *execution) giveUp(failed Step, cause error) bool {
	x.log("a task is given up", cause)
	x.cause = cause
	description := x.sentence(failed, cause)
	if err := x.write(x.lease.ctx, func() error {
		return x.runner.store.GiveUp(x.lease.ctx, x.lease.held, description, cause.Error())
	}); err != nil {
		x.setBack(err)
		return false
	}
	fault.Point(x.task.Kind, "given up")
	x.task.Phase, x.task.Step, x.task.Attempt = store.Cleanup, "", 0
	x.task.Description, x.task.LastError = description, cause.Error()
	return true
}

// finish records the outcome. A commit whose answer was lost is looked up rather than guessed at. It is not
// interrupted: what is done is done, and the epoch keeps a worker out that lost its lease.
func (x *execution) finish(state, description string, lasting bool, outcome func(*store.Tx)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.lease.ctx), x.runner.cfg.LeaseTTL)
	defer cancel()
	fault.Point(x.task.Kind, "ending as "+state)
	for {
		err := x.runner.store.Finish(ctx, x.lease.held, state, description, lasting, outcome)
		if errors.Is(err, store.ErrLeaseLost) && x.landed(ctx) {
			err = nil
		}
		if err == nil {
			x.task.State, x.task.Description, x.ended = state, description, true
			if state == store.Failed {
				x.err = &FailedError{Task: x.task, Err: x.cause}
				trace.SpanFromContext(x.lease.ctx).SetStatus(codes.Error, x.err.Error())
			}
			x.runner.cfg.OnEnd(x.task, state)
			fault.Point(x.task.Kind, "ended as "+state)
			return
		}
		if errors.Is(err, store.ErrLeaseLost) || ctx.Err() != nil {
			x.err = fmt.Errorf("record the end: %w", errors.Join(err, store.ErrLeaseLost))
			x.log("the end of a task is not recorded; another worker will see to it", x.err)
			return
		}
		x.log("could not record the end of a task; trying again", err)
		select {
		case <-ctx.Done():
		case <-time.After(inlineBackoff):
		}
	}
}

// landed tells whether the task's end was recorded under this lease.
func (x *execution) landed(ctx context.Context) bool {
	t, err := x.runner.store.Task(ctx, x.task.ID)
	return err == nil && t.State != store.InProgress && t.Epoch == x.lease.held.Epoch
}

func (x *execution) log(message string, err error, more ...slog.Attr) {
	trace.SpanFromContext(x.lease.ctx).AddEvent(message)
	x.runner.log.LogAttrs(x.lease.ctx, slog.LevelWarn, message, append(x.fields(err), more...)...)
}

// fields are what a line of the log says of the task.
func (x *execution) fields(err error) []slog.Attr {
	return []slog.Attr{slog.String("task", Token(x.task.ID)), slog.String("kind", string(x.task.Kind)),
		slog.String("instance_id", x.task.InstanceID), slog.String("binding_id", x.task.BindingID),
		slog.String("phase", x.task.Phase), slog.String("step", x.task.Step), slog.Int("attempt", x.task.Attempt),
		slog.Any("error", err)}
}
