// Package task runs tasks. It claims them from the store under a lease, runs their steps, retries steps that fail,
// undoes tasks that it gives up, and takes over tasks from processes that died.
//
// While there is nothing to do, a runner sleeps. What wakes it: Nudge, for a task that this process has recorded or
// that waited for one of its workers; an announcement of PostgreSQL, for a task that another process has recorded or
// released; and the agenda, which says when a postponed task is due and the lease of a dead process expires. The runner
// reads the agenda at least four times in the length of a lease, which is enough for leases that others take meanwhile,
// for lost announcements and for a clock that was set back. While announcements do not arrive, it reads it each
// Config.Poll.
package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"mysql-broker/provisioner/periodic"
	"mysql-broker/store"
)

// Config tunes a runner. The zero value of a field means its default.
type Config struct {
	LeaseTTL time.Duration // default 10 s: how long a dead process's task waits for another one

	// Poll is the time between two searches for tasks while there may be some, and while announcements of PostgreSQL do
	// not arrive; default 250 ms.
	Poll time.Duration
	// SchedulePoll is how often to look for scheduled tasks that are due; default 1 min.
	SchedulePoll time.Duration
	Workers      int // default 16: asynchronous tasks at a time in this process
	Attempts     int // default 6: tries of one step before the task is given up
	// Backoff is the pause before the second try; default 1 s. It doubles, up to a minute, and up to ten times as much
	// before tries to reach a server that does not answer.
	Backoff time.Duration

	// ServerWorkers is how many workers may run tasks of the same server; default a quarter of them, at least 2. A server
	// that hangs blocks no more workers. An organization may have three quarters of these, and of all workers.
	ServerWorkers int

	// MaxWait returns how long after its creation a task may wait for a server that cannot be reached before it is given
	// up; default DefaultMaxWait.
	MaxWait func(store.Task) time.Duration

	Tracer trace.Tracer // makes spans of tasks and their steps; default: none

	Logger   *slog.Logger
	OnRetry  func(t store.Task) // called when a step will be retried
	OnRunOut func()             // called when a lease expired while this process ran its task
	OnExpiry func()             // called again and again while there are expired bindings; must not block

	// OnEnd is called when a task has ended here, so long after it was recorded. state may be store.Cancelled.
	OnEnd func(t store.Task, state string, after time.Duration)
}

// DefaultMaxWait is how long Cloud Controller polls an operation by default.
// https://docs.cloudfoundry.org/services/asynchronous-operations.html
const DefaultMaxWait = 7 * 24 * time.Hour

// DefaultWorkers is the default of Config.Workers.
const DefaultWorkers = 16

// ServerShare is the default of Config.ServerWorkers for a number of workers.
func ServerShare(workers int) int { return max(workers/4, 2) }

func (c Config) withDefaults() Config {
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 10*time.Second)
	c.Poll = cmp.Or(c.Poll, 250*time.Millisecond)
	c.SchedulePoll = cmp.Or(c.SchedulePoll, time.Minute)
	c.Workers = cmp.Or(c.Workers, DefaultWorkers)
	c.Attempts = cmp.Or(c.Attempts, 6)
	c.ServerWorkers = cmp.Or(c.ServerWorkers, ServerShare(c.Workers))
	c.Backoff = cmp.Or(c.Backoff, time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.MaxWait == nil {
		c.MaxWait = func(store.Task) time.Duration { return DefaultMaxWait }
	}
	if c.OnEnd == nil {
		c.OnEnd = func(store.Task, string, time.Duration) {}
	}
	if c.OnRetry == nil {
		c.OnRetry = func(store.Task) {}
	}
	if c.OnRunOut == nil {
		c.OnRunOut = func() {}
	}
	if c.OnExpiry == nil {
		c.OnExpiry = func() {}
	}
	return c
}

// errHandover interrupts a task whose lease is released because this process stops.
var errHandover = errors.New("task: lease released, the broker is stopping")

// Runner runs tasks in this process. Make one with New.
type Runner struct {
	store   *store.Store
	kinds   map[string]Kind
	cfg     Config
	log     *slog.Logger
	owner   string        // unique per process start, so that a restarted process never mistakes old leases for its own
	nudge   chan struct{} // there may be a task to claim
	stir    chan struct{} // what is due next may have changed
	slots   chan struct{} // holds one for each busy worker
	servers servers       // with running or waiting tasks

	claiming  context.Context // ends when no more tasks may be claimed
	stopClaim context.CancelFunc
	beating   context.Context // ends when no lease is left to renew
	stopBeat  context.CancelFunc
	working   context.Context // ends when claimed tasks must be interrupted
	handOver  context.CancelCauseFunc
	serving   context.Context // ends when tasks that requests wait for must be interrupted too
	stopServe context.CancelCauseFunc
	workers   sync.WaitGroup
	beats     sync.WaitGroup

	mu   sync.Mutex
	held map[int64]*lease
}

// New starts a runner of tasks of these kinds, which are keyed by Task.Kind.
func New(s *store.Store, kinds map[string]Kind, cfg Config) *Runner {
	cfg = cfg.withDefaults()
	r := &Runner{store: s, kinds: kinds, cfg: cfg, log: cfg.Logger, owner: uuid.NewString(),
		nudge: make(chan struct{}, 1), stir: make(chan struct{}, 1), slots: make(chan struct{}, cfg.Workers),
		held: map[int64]*lease{}, servers: newServers(cfg)}
	r.claiming, r.stopClaim = context.WithCancel(context.Background())
	r.beating, r.stopBeat = context.WithCancel(context.Background())
	r.working, r.handOver = context.WithCancelCause(context.Background())
	r.serving, r.stopServe = context.WithCancelCause(context.Background())
	r.beats.Go(func() { r.heartbeat(r.beating) })
	r.workers.Go(r.dispatch)
	r.workers.Go(r.followAgenda)
	s.OnAnnounced(r.stirUp)
	r.workers.Go(func() {
		checked := map[string]bool{} // kinds
		periodic.Run(r.claiming, periodic.Schedule{Every: cfg.SchedulePoll},
			&periodic.Status{What: "recording scheduled tasks", Log: r.log},
			func(ctx context.Context) error { return r.recordScheduled(ctx, checked) })
	})
	return r
}

// HandOver stops claiming tasks, interrupts running tasks for which no request waits, and releases their leases, so
// that another process goes on at once.
func (r *Runner) HandOver() {
	r.stopClaim()
	r.handOver(errHandover)
}

// Stop hands over and returns when no task runs here any more. It also interrupts tasks for which requests wait: those
// should have ended before.
func (r *Runner) Stop() {
	r.HandOver()
	r.stopServe(errHandover)
	r.workers.Wait()
	r.mu.Lock()
	inline := slices.Collect(maps.Values(r.held))
	r.mu.Unlock()
	for _, l := range inline {
		<-l.dropped
	}
	r.stopBeat()
	r.beats.Wait()
}

// Lease returns Owner and LeaseTTL for a store.NewTask that this process will run with Do or Start.
func (r *Runner) Lease() (owner string, ttl time.Duration) { return r.owner, r.cfg.LeaseTTL }

// Nudge makes the runner look for due tasks now. Call it after a task without a lease was committed.
func (r *Runner) Nudge() { signal(r.nudge) }

// stirUp makes followAgenda read the agenda soon.
func (r *Runner) stirUp() { signal(r.stir) }

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// dispatch claims tasks, as many at a time as there are workers, until there is none, and then waits for a nudge.
func (r *Runner) dispatch() {
	status := periodic.Status{What: "looking for tasks", Log: r.log, Level: slog.LevelError}
	for {
		select {
		case <-r.claiming.Done():
			return
		case r.slots <- struct{}{}:
		}
		if r.claiming.Err() != nil {
			<-r.slots
			return
		}
		since := time.Now()
		t, err := r.claim()
		if errors.Is(err, store.ErrNotFound) {
			status.Report(r.claiming, nil)
		} else {
			status.Report(r.claiming, err)
		}
		if err != nil {
			<-r.slots
			r.rest(err)
			continue
		}
		r.servers.begin(t)
		r.workers.Go(func() {
			defer r.free(t)
			r.resume(t, since)
		})
	}
}

// claim is bounded, so that a silent connection does not keep this process from working. If the response is lost, the
// task waits until the lease expires. So a claim that is running when the process stops gets some time: its task is
// then handed over at once. Tasks of organizations for which no worker is busy here go first.
func (r *Runner) claim() (store.Task, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.LeaseTTL)
	defer cancel()
	unused := context.AfterFunc(r.claiming, func() { time.AfterFunc(r.cfg.LeaseTTL/4, cancel) })
	defer unused()
	newcomers, all := r.servers.passedOver()
	if len(newcomers.Organizations) > 0 {
		t, err := r.store.Queue.Claim(ctx, r.owner, r.cfg.LeaseTTL, newcomers)
		if !errors.Is(err, store.ErrNotFound) {
			return t, err
		}
	}
	return r.store.Queue.Claim(ctx, r.owner, r.cfg.LeaseTTL, all)
}

// rest waits until there may be a task to claim again. err says why none was claimed.
func (r *Runner) rest(err error) {
	var again <-chan time.Time
	if errors.Is(err, store.ErrNotFound) {
		r.stirUp()
	} else {
		again = time.After(r.cfg.Poll)
	}
	select {
	case <-r.claiming.Done():
	case <-r.nudge:
	case <-again:
	}
}

// resume runs a claimed task.
func (r *Runner) resume(t store.Task, since time.Time) {
	l := r.hold(r.working, t, since)
	x := &execution{runner: r, lease: l, task: t, worker: true}
	defer func() { r.drop(l, x.given) }()
	workflow, err := r.workflow(l.ctx, t)
	if err != nil {
		x.postpone(fmt.Errorf("find out what to do: %w", err), t.Attempt) // the steps were not attempted
	} else {
		x.workflow = workflow
		x.work()
	}
}

// Do runs a task that was just recorded with this runner's lease and returns it once it has ended. err says why it
// failed, or that the cleanup failed and will be retried. If ctx ends first, the task runs on. A task without a lease,
// because an older task of the instance still holds one, a task that loses its lease, and a pending task are left to
// the workers of any process, and Do waits until they end. since is a time before the task was recorded.
func (r *Runner) Do(ctx context.Context, t store.Task, workflow Workflow, since time.Time) (store.Task, error) {
	if !t.Leased {
		r.Nudge()
		return r.Wait(ctx, t.ID)
	}
	l := r.hold(r.serving, t, since)
	x := &execution{runner: r, lease: l, task: t, workflow: workflow, inline: true, began: time.Now()}
	done := make(chan error, 1)
	go func() {
		defer func() { done <- x.err }()
		defer func() {
			r.drop(l, x.given)
			r.stirUp() // another task of the instance may have waited
		}()
		x.work()
	}()
	select {
	case err := <-done:
		if errors.Is(err, store.ErrLeaseLost) || errors.Is(err, errSuspended) {
			return r.Wait(ctx, t.ID)
		}
		return x.task, err
	case <-ctx.Done():
		return t, context.Cause(ctx)
	}
}

// Start runs a task that was just recorded with this runner's lease in the background. A task without a lease, or for
// which no worker is free here, or none for its server, is left to the workers of any process. since is a time before
// the task was recorded.
func (r *Runner) Start(t store.Task, workflow Workflow, since time.Time) {
	if !t.Leased {
		r.Nudge()
		return
	}
	l := r.hold(r.working, t, since)
	if !r.take(t) {
		l.cancel(errHandover)
		r.drop(l, false)
		return
	}
	r.workers.Go(func() {
		defer r.free(t)
		x := &execution{runner: r, lease: l, task: t, workflow: workflow, worker: true}
		defer func() { r.drop(l, x.given) }()
		x.work()
	})
}

// take reserves a worker for a task, if one is free and its server and organization may have it.
func (r *Runner) take(t store.Task) bool {
	if !r.servers.tryBegin(t) {
		return false
	}
	select {
	case r.slots <- struct{}{}:
		return true
	default:
		r.servers.end(t)
		return false
	}
}

// WithoutWorker calls fn, which waits for what a tenant does, and leaves the worker to other tasks meanwhile. Then it
// waits for a free one, whatever others of its server and organization are busy with.
func (r *Run) WithoutWorker(fn func() error) error {
	if r.execution.worker {
		runner := r.execution.runner
		runner.free(r.Task)
		defer func() {
			runner.slots <- struct{}{}
			runner.servers.begin(r.Task)
		}()
	}
	return fn()
}

// free returns a worker.
func (r *Runner) free(t store.Task) {
	r.servers.end(t)
	<-r.slots
	r.Nudge()
}

// Wait returns a task once it has ended, in whatever process. err says that it failed, or that ctx ended first.
func (r *Runner) Wait(ctx context.Context, id int64) (store.Task, error) {
	t, err := r.store.Tasks.WaitEnd(ctx, id)
	if err == nil && t.State == store.Failed {
		err = &FailedError{Task: t}
	}
	return t, err
}

// FailedError says that a task ended as failed. Task.Description is for users.
type FailedError struct {
	Task store.Task
	Err  error // the cause, if it failed in this process
}

func (e *FailedError) Error() string {
	if e.Err != nil {
		return Token(e.Task.ID) + " failed: " + e.Err.Error()
	}
	return Token(e.Task.ID) + " failed: " + e.Task.LastError
}

func (e *FailedError) Unwrap() error { return e.Err }
