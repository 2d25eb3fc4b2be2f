package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// SyncDeadline is how long a request waits for its task. Cloud Controller gives up after 60 s.
const SyncDeadline = 50 * time.Second

// Result is the outcome of a successful request.
type Result struct {
	Existed   bool   // an earlier request had done the work
	Operation string // the task's token if the work continues after the response, else ""
}

// RespondsAsync reports whether the response to a request for a plan is sent before the work is done.
func RespondsAsync(of plan.Plan, acceptsIncomplete bool) (bool, error) {
	if of.Async == plan.AsyncRequired && !acceptsIncomplete {
		return false, ErrAsyncRequired
	}
	return of.Async != plan.AsyncNever && acceptsIncomplete, nil
}

// Decision is what the broker decides about a request in the transaction that records it: run the new task, join the
// task of an earlier request, or nothing if neither is needed.
type Decision struct {
	Instance store.Instance
	Binding  store.Binding // of a bind

	Task      *store.Task   // nil if there is nothing to do
	Joined    bool          // an earlier request recorded the task
	Workflow  task.Workflow // of a new task
	Cancelled []store.Task  // tasks that the transaction cancelled

	Async   bool      // the response does not wait for the task
	Since   time.Time // before the transaction
	Refusal error     // of a request that is refused, but has to be recorded
}

// BeginOn locks an instance that a request names, and reads what is in progress there.
func BeginOn(ctx context.Context, tx *store.Tx, id string) (store.Beginning, error) {
	there, err := tx.Begin(ctx, id, "")
	if errors.Is(err, store.ErrNotFound) {
		err = Refuse(NotFound, "There is no service instance with this id.")
	}
	return there, err
}

type actorKey struct{}

// WithActor returns a context for requests of an actor, for the audit.
func WithActor(ctx context.Context, a store.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// NewTask adds what every new task has: this process holds its lease and will work on it.
func (e *Engine) NewTask(ctx context.Context, n store.NewTask) store.NewTask {
	fault.Point(n.Kind, "recording")
	n.Owner, n.LeaseTTL = e.Tasks.Lease()
	n.Request = task.Traced(ctx, n.Request)
	n.Actor, _ = ctx.Value(actorKey{}).(store.Actor)
	n.Description, n.Adds = e.kinds[n.Kind].beginning, e.kinds[n.Kind].Adds
	return n
}

// Operate makes the decision about a request for a kind of task, and runs it.
func (e *Engine) Operate(ctx context.Context, kind string,
	decide func(*store.Tx) (Decision, error)) (Decision, Result, error) {
	for {
		d, err := e.Decide(ctx, decide)
		if err != nil {
			return d, Result{}, fmt.Errorf("record the %s: %w", kind, err)
		}
		result, err := e.Run(ctx, d)
		if !errors.Is(err, ErrUndone) {
			return d, result, err
		}
	}
}

// Decide runs fn in a transaction.
func (e *Engine) Decide(ctx context.Context, fn func(*store.Tx) (Decision, error)) (d Decision, err error) {
	since := time.Now()
	err = e.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		d, err = fn(tx)
		return err
	})
	d.Since = since
	return d, err
}

// Run carries out a decision. It waits for the end of the task unless the response is asynchronous.
func (e *Engine) Run(ctx context.Context, d Decision) (Result, error) {
	for _, t := range d.Cancelled {
		e.Tasks.Cancelled(t)
	}
	switch {
	case d.Refusal != nil:
		return Result{}, d.Refusal
	case d.Task == nil:
		return Result{Existed: true}, nil
	case d.Joined:
		return e.join(ctx, *d.Task, d.Async)
	}
	fault.Point(d.Task.Kind, "recorded")
	if d.Async {
		e.Tasks.Start(*d.Task, d.Workflow, d.Since)
		return Result{Operation: task.Token(d.Task.ID)}, nil
	}
	_, err := e.Tasks.Do(ctx, *d.Task, d.Workflow, d.Since)
	return Result{}, outcome(*d.Task, err)
}

// join responds to a repeated request with the task that the first one recorded. If that task has failed and is being
// undone, join waits for the end of the cleanup and returns ErrUndone. The request then starts again, because the
// servers may work again.
func (e *Engine) join(ctx context.Context, t store.Task, async bool) (Result, error) {
	if async {
		return Result{Operation: task.Token(t.ID)}, nil
	}
	undoing := t.Phase == store.Cleanup
	if undoing { // at once, even if its next attempt is due later
		if _, err := e.Store.Tasks.RetryNow(ctx, t.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return Result{}, fmt.Errorf("retry the cleanup of %s: %w", task.Token(t.ID), err)
		}
		e.Tasks.Nudge()
	}
	_, err := e.Tasks.Wait(ctx, t.ID)
	failed, ended := errors.AsType[*task.FailedError](err)
	if undoing && ended && failed.Task.LastError != store.Cancelled {
		return Result{}, ErrUndone
	}
	return Result{Existed: true}, outcome(t, err)
}

// ErrUndone means that the failed task of an earlier request has been undone.
var ErrUndone = errors.New("the earlier, failed attempt is undone")

// outcome words a task's failure for users.
func outcome(t store.Task, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, store.ErrHeld) {
		return err
	}
	if failed, ok := errors.AsType[*task.FailedError](err); ok {
		code := Unavailable
		if failed.Task.LastError == store.Cancelled {
			code = Busy
		}
		return &Error{Code: code, Sentence: failed.Task.Description, Err: err}
	}
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrLocked) {
		return err
	}
	return &Error{Code: Unavailable, Err: err, Sentence: fmt.Sprintf("The MySQL server could not finish this. "+
		"Try again in a minute; if that fails too, tell your operator about %s.", task.Token(t.ID))}
}

// LeaseOf returns the lease under which a task's worker writes to PostgreSQL.
func LeaseOf(t store.Task) store.Lease { return store.Lease{ID: t.ID, Epoch: t.Epoch} }
