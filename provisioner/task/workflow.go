package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mysql-broker/store"
)

// Workflow is what a task does. Every step may run again, after a crash or a failure, and must then reach the same
// end; what it chooses is recorded in the store before the task begins.
type Workflow struct {
	Steps   []Step
	Cleanup []Step // undoes the steps once they are given up; a task without ends failed at once

	// Succeeded and Failed record what has become of the instance or binding, in the transaction that ends the task. They
	// may run more than once, as commits do. Succeeded gets what the steps remembered. undone is false if the cleanup was
	// given up too: something may be left over and has to be recorded. Either may be nil.
	Succeeded func(tx *store.Tx, m Memory)
	Failed    func(tx *store.Tx, undone bool)

	// Durable says that the success must not be told before it is on disk. Without, a crash of PostgreSQL may have the
	// steps run once more after it was told: then none of them, nor the cleanup if they fail, may undo what a user
	// has done meanwhile.
	Durable bool
}

// Step is one idempotent part of a workflow.
type Step struct {
	Name     string // recorded once the step is done; unique in its workflow
	Progress string // for users, while the step runs and if it fails: "Creating the database"

	// Timeout bounds one attempt; 0 means 2 minutes. It is for steps that hang where nothing else notices: what waits for
	// a server that does not answer at all is ended far sooner, see mysqladmin.Server.Attend.
	Timeout time.Duration

	Do func(context.Context, *Run) error
}

// defaultTimeout is far more than any step takes that has no Timeout.
const defaultTimeout = 2 * time.Minute

// Run is one attempt at a task by a worker that holds its lease.
type Run struct {
	Task      store.Task
	execution *execution
}

// Alive returns store.ErrLeaseLost once another worker may have the task. Steps ask before whatever they could not
// take back. It is decided by the monotonic clock: a process that was paused gets the right answer when it wakes. Where
// the whole machine was, that clock stood still: then it is the session lock that keeps the process out.
func (r *Run) Alive() error { return r.execution.lease.alive() }

// Answered says that the task's server has just answered: other tasks that wait for it are tried too.
func (r *Run) Answered() { r.execution.runner.servers.answered(r.Task.Server) }

// Report shows a sentence to users who poll, instead of the step's Progress, or of what was reported before.
func (r *Run) Report(ctx context.Context, sentence string) error {
	return r.execution.progress(ctx, sentence)
}

// Permanent marks an error that trying again cannot mend: the task is given up at once, and users read sentence. The
// error of a step that undoes something is tried again all the same.
func Permanent(sentence string, err error) error {
	return &permanentError{sentence: sentence, err: err}
}

// Failure words an error for users: they read sentence if the task is given up because of it. It is tried again like
// any other.
func Failure(sentence string, err error) error { return &failureError{sentence, err} }

type failureError struct {
	sentence string
	err      error
}

func (e *failureError) Error() string { return e.err.Error() }
func (e *failureError) Unwrap() error { return e.err }

type permanentError struct {
	sentence string
	err      error
}

func (e *permanentError) Error() string { return fmt.Sprintf("%s (%v)", e.sentence, e.err) }
func (e *permanentError) Unwrap() error { return e.err }

// RequeueElsewhere marks an error that says nothing about the work, only that this process cannot do it now: another
// one, which has a newer catalog for example, may. It counts as no attempt, however often it comes; Cancel ends it.
func RequeueElsewhere(err error) error { return &requeueError{err} }

type requeueError struct{ error }

func (e *requeueError) Unwrap() error { return e.error }

// Unreachable marks an error that says nothing about the work, only that the task's server cannot be reached or does
// not answer. It counts as no attempt: the task waits for the server, for up to Config.MaxWait. While a request waits
// for the work itself, it is tried a few times like any other, and then undone; the undoing waits.
func Unreachable(err error) error { return &unreachableError{err} }

type unreachableError struct{ error }

func (e *unreachableError) Unwrap() error { return e.error }

// Keep marks an error of a step that undoes something, where that must not be done: what is there is more than the task
// made. The task ends as failed at once, with sentence for users, and operators are told.
func Keep(sentence string, err error) error { return &keepError{sentence, err} }

// kept begins what a LastError says of such an error.
const kept = "kept what is there: "

// Kept tells whether a task failed and left what was there, for which a step returned a Keep error.
func Kept(t store.Task) bool { return t.State == store.Failed && strings.Contains(t.LastError, kept) }

type keepError struct {
	sentence string
	err      error
}

func (e *keepError) Error() string { return kept + e.err.Error() }
func (e *keepError) Unwrap() error { return e.err }

// sentence is what users read about a failed step.
func (x *execution) sentence(step Step, err error) string {
	if p, ok := errors.AsType[*permanentError](err); ok {
		return p.sentence
	}
	what := step.Progress + " failed."
	if f, ok := errors.AsType[*failureError](err); ok {
		what = f.sentence
	} else if isUnreachable(err) {
		what = "The MySQL server did not answer."
	}
	return fmt.Sprintf("%s %s If it fails again, tell your operator about %s.", what, x.runner.kinds[x.task.Kind].Advice,
		Token(x.task.ID))
}
