package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mysql-broker/store"
)

// Workflow is what a task does. Every step may run again, after a crash or a failure, and must then have the same
// result. What has to be chosen, such as names and passwords, is recorded in the store before the task begins.
type Workflow struct {
	Steps   []Step
	Cleanup []Step // undoes the steps once they are given up; without, the task fails at once
	Advice  string // what users read once the task has succeeded, if there is something left for them to do

	// Succeeded and Failed record the new state of the instance or binding, in the transaction that ends the task. They
	// may run more than once, because a commit may be retried. Both get what the steps remembered. undone is false if the
	// cleanup was given up as well, so that something may be left. Either may be nil.
	Succeeded func(tx *store.Tx, m Memory)
	Failed    func(tx *store.Tx, m Memory, undone bool)

	// NotUndone returns what users read if the cleanup was given up as well. If it is nil, they read the same as before.
	NotUndone func(m Memory) string

	// Durable says that the success must be on PostgreSQL's disk before it is reported. If it is false, the steps may run
	// once more after a PostgreSQL crash, although the platform was told of the success: neither they nor the cleanup may
	// then undo what a user has done since.
	Durable bool
}

// Step is one idempotent part of a workflow.
type Step struct {
	Name     string // recorded once the step is done; unique in its workflow
	Progress string // for users, while the step runs and after it fails: "Creating the database"

	// Timeout bounds one attempt; 0 means 2 minutes. It is for hangs that nothing else detects. A step that waits for a
	// server that does not answer is ended far sooner: see mysqladmin.Server.Attend.
	Timeout time.Duration

	Do func(context.Context, *Run) error
}

// defaultTimeout is far more than any step without a Timeout takes.
const defaultTimeout = 2 * time.Minute

// Run is one attempt at a task by a worker that holds its lease.
type Run struct {
	Task      store.Task
	execution *execution
}

// Alive returns store.ErrLeaseLost once another worker may have the task. Steps call it before anything that they
// cannot undo. It uses the monotonic clock, so that it is right in a process that was paused. That clock stands still
// while the whole machine is suspended; in that case the session lock keeps this process out.
func (r *Run) Alive() error { return r.execution.lease.alive() }

// Answered reports that the task's server has just answered, so that other tasks that wait for it are retried.
func (r *Run) Answered() { r.execution.runner.servers.answered(r.Task.Server) }

// Report replaces the sentence that users read while the step runs.
func (r *Run) Report(ctx context.Context, sentence string) error {
	return r.execution.progress(ctx, sentence, false)
}

// ReportWork is Report for a step that waits for what others do, and has seen that they do something. Nobody takes the
// task for stuck, however long that takes.
func (r *Run) ReportWork(ctx context.Context, sentence string) error {
	return r.execution.progress(ctx, sentence, true)
}

// furthest is how far the present step of a task has come.
type furthest struct {
	After string // the last finished step
	Done  map[string]uint64
}

const furthestKey Key[furthest] = "furthest"

// ReportDone is Report for a step that knows how much it has done of some work. As long as that is more than in all
// attempts before, nobody takes the task for stuck, however long the step takes.
func (r *Run) ReportDone(ctx context.Context, sentence, work string, done uint64) error {
	most, _, err := furthestKey.Recall(r)
	if err != nil {
		return err
	}
	if most.Done == nil || most.After != r.Task.Step {
		most = furthest{r.Task.Step, map[string]uint64{}}
	}
	further := done > most.Done[work]
	if further {
		most.Done[work] = done
		if err := furthestKey.Remember(r, most); err != nil {
			return err
		}
	}
	return r.execution.progress(ctx, sentence, further)
}

// Advance is Report for a step that has finished a part of its work, which no attempt does again. From here, ReportDone
// counts from zero.
func (r *Run) Advance(ctx context.Context, sentence string) error {
	if err := furthestKey.Remember(r, furthest{}); err != nil {
		return err
	}
	return r.execution.progress(ctx, sentence, true)
}

const adviceKey Key[string] = "advice" // what Advise was called with

// Advise sets a sentence that users read after the workflow's advice, once the task has succeeded. "" is for none.
func (r *Run) Advise(sentence string) error { return adviceKey.Remember(r, sentence) }

// advice is what users read once the task has succeeded.
func (x *execution) advice() string {
	sentence, _, err := adviceKey.In(x.task.Memory)
	if err != nil {
		x.log("could not read the advice of a task", err)
	}
	return strings.TrimSpace(x.workflow.Advice + " " + sentence)
}

// Permanent marks an error that a retry cannot fix: the task is given up at once, and users read sentence. Cleanup
// steps are retried nevertheless.
func Permanent(sentence string, err error) error { return &permanentError{explained{sentence, err}} }

// Failure adds a sentence to an error, which users read if the task is given up because of it. The step is retried like
// any other.
func Failure(sentence string, err error) error { return &failureError{explained{sentence, err}} }

// explained is an error with a sentence for users.
type explained struct {
	sentence string
	error
}

func (e explained) Unwrap() error { return e.error }

type failureError struct{ explained }

type permanentError struct{ explained }

func (e *permanentError) Error() string { return fmt.Sprintf("%s (%v)", e.sentence, e.error) }

// RequeueElsewhere marks an error that only says that this process cannot run the task now. Another process may, for
// example one with a newer catalog. It does not count as an attempt, however often it occurs; Cancel ends the task.
func RequeueElsewhere(err error) error { return &requeueError{err, 0} }

// RequeueAfter is RequeueElsewhere with another pause, at most a minute.
func RequeueAfter(pause time.Duration, err error) error { return &requeueError{err, pause} }

type requeueError struct {
	error
	after time.Duration // 0 for the default
}

func (e *requeueError) Unwrap() error { return e.error }

// Unreachable marks an error that only says that the task's server cannot be reached or does not answer. It does not
// count as an attempt: the task waits for the server, for up to Config.MaxWait. While a request waits for the task,
// however, the step is retried a few times like any other, and then the task is given up; its cleanup waits for the
// server.
func Unreachable(err error) error { return &unreachableError{err} }

type unreachableError struct{ error }

func (e *unreachableError) Unwrap() error { return e.error }

// Keep marks the error of a cleanup step that must not delete what it found, because that is more than the task
// created. The task fails at once, with sentence for users, and an error in the log for operators.
func Keep(sentence string, err error) error { return &keepError{explained{sentence, err}} }

// kept is the prefix of a Keep error in LastError.
const kept = "kept what is there: "

// Kept reports whether a task failed with a Keep error.
func Kept(t store.Task) bool { return t.State == store.Failed && strings.Contains(t.LastError, kept) }

type keepError struct{ explained }

func (e *keepError) Error() string { return kept + e.error.Error() }

// Abandon marks the error of a cleanup step that knows that the task cannot be undone. The task fails at once.
func Abandon(err error) error { return &abandonError{err} }

type abandonError struct{ error }

func (e *abandonError) Unwrap() error { return e.error }

// is reports whether an error is of a kind, or wraps one of it.
func is[Kind error](err error) bool {
	_, ok := errors.AsType[Kind](err)
	return ok
}

// sentence is what users read about a failed step.
func (x *execution) sentence(step Step, err error) string {
	if p, ok := errors.AsType[*permanentError](err); ok {
		return p.sentence
	}
	what := step.Progress + " failed."
	if f, ok := errors.AsType[*failureError](err); ok {
		what = f.sentence
	} else if is[*unreachableError](err) {
		what = "The MySQL server did not answer."
	}
	return fmt.Sprintf("%s %s If it fails again, tell your operator about %s.", what,
		x.runner.kinds[x.task.Kind].advice(x.task), Token(x.task.ID))
}
