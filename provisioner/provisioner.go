// Package provisioner makes and unmakes MySQL resources: databases on shared servers, dedicated servers, and the
// accounts of bindings. It speaks in operations and plans and knows nothing of HTTP.
package provisioner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// syncDeadline is how long a request waits for its task. Cloud Controller gives up after 60 s.
const syncDeadline = 50 * time.Second

// Config is what a provisioner works with.
type Config struct {
	Store     *store.Store
	Plans     plan.Set
	Fleet     *fleet.Fleet
	Logger    *slog.Logger
	Tasks     task.Config // its Logger is set from Logger
	OnFull    func()      // called when an instance is refused because every shared server is full; may be nil
	QuotasOff bool        // storage is not measured: what is known of it is of another time
}

// Provisioner carries out the operations on instances and bindings. Make one with New.
type Provisioner struct {
	store     *store.Store
	plans     plan.Set
	fleet     *fleet.Fleet
	tasks     *task.Runner
	log       *slog.Logger
	onFull    func()
	quotasOff bool
	loads     loads
	closing   sync.WaitGroup // of sessions that nobody waits for
	stopping  context.CancelFunc
}

// New starts a provisioner: from now on it works on tasks that are due, those of processes that died included.
func New(cfg Config) *Provisioner {
	p := &Provisioner{store: cfg.Store, plans: cfg.Plans, fleet: cfg.Fleet,
		log: cfg.Logger, onFull: cfg.OnFull, quotasOff: cfg.QuotasOff}
	if p.onFull == nil {
		p.onFull = func() {}
	}
	cfg.Tasks.Logger = cfg.Logger
	if cfg.Tasks.MaxWait == nil {
		cfg.Tasks.MaxWait = p.maxWait
	}
	p.tasks = task.New(cfg.Store, p.kinds(), cfg.Tasks)
	ctx, cancel := context.WithCancel(context.Background())
	p.stopping = cancel
	p.closing.Go(func() { p.keepServed(ctx) })
	return p
}

// maxWait is how long a task may wait for its server: nine tenths of the time for which platforms ask about it, so that
// they read how it ended before they give up by themselves.
func (p *Provisioner) maxWait(t store.Task) time.Duration {
	polled := p.plans.Get(t.PlanID).MaxPolling
	if polled == 0 {
		polled = task.DefaultMaxWait
	}
	return polled / 10 * 9
}

// HandOver gives the tasks that no request waits for to other processes.
func (p *Provisioner) HandOver() { p.tasks.HandOver() }

// Stop hands over all tasks and waits until nothing is under way here. Requests should have ended before.
func (p *Provisioner) Stop() {
	p.stopping()
	p.tasks.Stop()
	p.closing.Wait()
}

// Result is the outcome of a request.
type Result struct {
	Existed   bool   // the request had been carried out before
	Operation string // the task's token if the work goes on after the answer, else ""
}

// answersAsync tells whether a request for a plan is answered before its work is done.
func answersAsync(of plan.Plan, acceptsIncomplete bool) (bool, error) {
	if of.Async == plan.AsyncRequired && !acceptsIncomplete {
		return false, errAsyncRequired
	}
	return of.Async != plan.AsyncNever && acceptsIncomplete, nil
}

// begin completes a task to be recorded: it is leased to this process, which works on it.
func (p *Provisioner) begin(ctx context.Context, n store.NewTask) store.NewTask {
	fault.Point(n.Kind, "recording")
	n.Owner, n.LeaseTTL = p.tasks.Lease()
	n.Request = task.Traced(ctx, n.Request)
	n.Description = beginning[n.Kind]
	return n
}

// beginning is what users read of a task until its first step begins, or while a request waits for it.
var beginning = map[string]string{
	store.Provision:   "Creating the service instance",
	store.Update:      "Updating the service instance",
	store.Deprovision: "Deleting the service instance",
	store.Bind:        "Creating the service binding",
	store.Unbind:      "Deleting the service binding",
}

// run works on a recorded task: while the caller waits, or later. since is a time before it was recorded.
func (p *Provisioner) run(ctx context.Context, t store.Task, w task.Workflow, async bool,
	since time.Time) (Result, error) {
	fault.Point(t.Kind, "recorded")
	if async {
		p.tasks.Start(t, w, since)
		return Result{Operation: task.Token(t.ID)}, nil
	}
	_, err := p.tasks.Do(ctx, t, w, since)
	return Result{}, outcome(t, err)
}

// join answers a repeated request with the task that the first one recorded. Where that one had failed before and was
// only being undone, the error is errUndone: the servers may be well again, and the request is to be carried out anew.
func (p *Provisioner) join(ctx context.Context, t store.Task, async bool) (Result, error) {
	if async {
		return Result{Operation: task.Token(t.ID)}, nil
	}
	undoing := t.Phase == store.Cleanup
	if undoing { // at once, where it waits for its next attempt
		if _, err := p.store.RetryNow(ctx, t.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return Result{}, fmt.Errorf("have %s undone: %w", task.Token(t.ID), err)
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

// errUndone means that what an earlier request had begun is undone by now.
var errUndone = errors.New("what failed before is undone")

// Held returns store.ErrHeld if PostgreSQL is older than the servers, which may hold what is not recorded.
func (p *Provisioner) Held(ctx context.Context) error {
	hold, err := p.store.Hold(ctx)
	if err != nil {
		return fmt.Errorf("read whether PostgreSQL is held: %w", err)
	}
	if hold != nil {
		return store.ErrHeld
	}
	return nil
}

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

// plan finds a plan that an instance has, or an error for operators if it was taken out of the catalog.
func (p *Provisioner) plan(id string) (plan.Plan, error) {
	found := p.plans.Get(id)
	if found.Removed {
		return found, task.RequeueElsewhere(fmt.Errorf("plan %q is not in the catalog", id))
	}
	return found, nil
}

// Access is how an application reaches an instance.
type Access struct {
	fleet.Address
	Database string
}

// unlessDeleted returns err or, where a dedicated server was not found because its instance has been deleted since it
// was read, or is being deleted, what users are to be told.
func (p *Provisioner) unlessDeleted(ctx context.Context, instanceID string, err error) error {
	if !errors.Is(err, launcher.ErrNotFound) {
		return err
	}
	latest, taskErr := p.store.LatestTask(ctx, instanceID, "", "")
	if taskErr == nil && latest.Kind == store.Deprovision && latest.State == store.InProgress {
		return errBusy
	}
	if _, readErr := p.store.Instance(ctx, instanceID); errors.Is(readErr, store.ErrNotFound) {
		return refuse(NotFound, "There is no service instance with this id.")
	}
	return err
}
