package provisioner

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

// syncDeadline is how long a request waits for its task. Cloud Controller gives up after 60 s.
const syncDeadline = 50 * time.Second

// Result is the outcome of a successful request.
type Result struct {
	Existed   bool   // an earlier request had done the work
	Operation string // the task's token if the work continues after the response, else ""
}

// respondsAsync reports whether the response to a request for a plan is sent before the work is done.
func respondsAsync(of plan.Plan, acceptsIncomplete bool) (bool, error) {
	if of.Async == plan.AsyncRequired && !acceptsIncomplete {
		return false, errAsyncRequired
	}
	return of.Async != plan.AsyncNever && acceptsIncomplete, nil
}

// decision is what the broker decides about a request in the transaction that records it: run the new task, join the
// task of an earlier request, or nothing if neither is needed.
type decision struct {
	instance store.Instance
	binding  store.Binding // of a bind

	task      *store.Task   // nil if there is nothing to do
	joined    bool          // an earlier request recorded the task
	workflow  task.Workflow // of a new task
	cancelled []store.Task  // tasks that the transaction cancelled

	async   bool      // the response does not wait for the task
	since   time.Time // before the transaction
	refusal error     // of a request that is refused, but has to be recorded
}

// beginOn locks an instance that a request names, and reads what is in progress there.
func beginOn(ctx context.Context, tx *store.Tx, id string) (store.Beginning, error) {
	there, err := tx.Begin(ctx, id, "")
	if errors.Is(err, store.ErrNotFound) {
		err = refuse(NotFound, "There is no service instance with this id.")
	}
	return there, err
}

type actorKey struct{}

// WithActor returns a context for requests of an actor, for the audit.
func WithActor(ctx context.Context, a store.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// newTask adds what every new task has: this process holds its lease and will work on it.
func (p *Provisioner) newTask(ctx context.Context, n store.NewTask) store.NewTask {
	fault.Point(n.Kind, "recording")
	n.Owner, n.LeaseTTL = p.tasks.Lease()
	n.Request = task.Traced(ctx, n.Request)
	n.Actor, _ = ctx.Value(actorKey{}).(store.Actor)
	n.Description, n.Adds = kinds[n.Kind].beginning, kinds[n.Kind].Adds
	return n
}

// operate makes the decision about a request for a kind of task, and runs it.
func (p *Provisioner) operate(ctx context.Context, kind string,
	decide func(*store.Tx) (decision, error)) (decision, Result, error) {
	for {
		d, err := p.decide(ctx, decide)
		if err != nil {
			return d, Result{}, fmt.Errorf("record the %s: %w", kind, err)
		}
		result, err := p.run(ctx, d)
		if !errors.Is(err, errUndone) {
			return d, result, err
		}
	}
}

// decide runs fn in a transaction.
func (p *Provisioner) decide(ctx context.Context, fn func(*store.Tx) (decision, error)) (d decision, err error) {
	since := time.Now()
	err = p.store.InTx(ctx, func(tx *store.Tx) (err error) {
		d, err = fn(tx)
		return err
	})
	d.since = since
	return d, err
}

// run carries out a decision. It waits for the end of the task unless the response is asynchronous.
func (p *Provisioner) run(ctx context.Context, d decision) (Result, error) {
	for _, t := range d.cancelled {
		p.tasks.Cancelled(t)
	}
	switch {
	case d.refusal != nil:
		return Result{}, d.refusal
	case d.task == nil:
		return Result{Existed: true}, nil
	case d.joined:
		return p.join(ctx, *d.task, d.async)
	}
	fault.Point(d.task.Kind, "recorded")
	if d.async {
		p.tasks.Start(*d.task, d.workflow, d.since)
		return Result{Operation: task.Token(d.task.ID)}, nil
	}
	_, err := p.tasks.Do(ctx, *d.task, d.workflow, d.since)
	return Result{}, outcome(*d.task, err)
}

// join responds to a repeated request with the task that the first one recorded. If that task has failed and is being
// undone, join waits for the end of the cleanup and returns errUndone. The request then starts again, because the
// servers may work again.
func (p *Provisioner) join(ctx context.Context, t store.Task, async bool) (Result, error) {
	if async {
		return Result{Operation: task.Token(t.ID)}, nil
	}
	undoing := t.Phase == store.Cleanup
	if undoing { // at once, even if its next attempt is due later
		if _, err := p.store.RetryNow(ctx, t.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return Result{}, fmt.Errorf("retry the cleanup of %s: %w", task.Token(t.ID), err)
		}
		p.tasks.Nudge()
	}
	_, err := p.tasks.Wait(ctx, t.ID)
	failed, ended := errors.AsType[*task.FailedError](err)
	if undoing && ended && failed.Task.LastError != store.Cancelled {
		return Result{}, errUndone
	}
	return Result{Existed: true}, outcome(t, err)
}

// errUndone means that the failed task of an earlier request has been undone.
var errUndone = errors.New("the earlier, failed attempt is undone")

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

// leaseOf returns the lease under which a task's worker writes to PostgreSQL.
func leaseOf(t store.Task) store.Lease { return store.Lease{ID: t.ID, Epoch: t.Epoch} }
