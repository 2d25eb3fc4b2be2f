package task_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

const (
	// shortLease is for tests in which leases have to run out, and to which it is the same if more of them do: those that
	// are to be renewed may run out too, on a busy machine.
	shortLease = time.Second

	// briskLease is for tests that wait for a lease to be renewed, or found lost: a quarter of it at most. That of a task
	// that was cancelled is waited out.
	briskLease = 4 * time.Second
)

// parallel runs the test in parallel with others, on a store of its own.
func parallel(t *testing.T) *store.Store {
	t.Parallel()
	return servers.Store(t)
}

// start runs tasks with one workflow, impatiently.
func start(t *testing.T, s *store.Store, w task.Workflow) *task.Runner {
	return startWith(t, s, w, task.Config{})
}

func startWith(t *testing.T, s *store.Store, w task.Workflow, cfg task.Config) *task.Runner {
	return startKinds(t, s, always(w), cfg)
}

func startKinds(t *testing.T, s *store.Store, kinds map[string]task.Kind, cfg task.Config) *task.Runner {
	cfg.Poll, cfg.Backoff, cfg.SchedulePoll = 20*time.Millisecond, 10*time.Microsecond, 50*time.Millisecond
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	r := task.New(s, kinds, cfg)
	t.Cleanup(r.Stop)
	return r
}

// always returns kinds whose tasks all have the same workflow.
func always(w task.Workflow) map[string]task.Kind {
	return kinds(func(context.Context, store.Task) (task.Workflow, error) { return w, nil })
}

// kinds returns the kinds of the tasks that record creates.
func kinds(workflow func(context.Context, store.Task) (task.Workflow, error)) map[string]task.Kind {
	return map[string]task.Kind{store.Provision: {Workflow: workflow, Advice: "Try again.", Undoable: true}}
}

func record(t *testing.T, s *store.Store, n store.NewTask) store.Task { return recordOf(t, s, "i", n) }

func recordOf(t *testing.T, s *store.Store, instanceID string, n store.NewTask) store.Task {
	n.InstanceID, n.Kind, n.PlanID = instanceID, cmp.Or(n.Kind, store.Provision), "p"
	var recorded *store.Task
	require.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error {
		recorded = tx.InsertTask(n)
		return nil
	}))
	return *recorded
}

// end waits until a task has ended.
func end(t *testing.T, s *store.Store, id int64) store.Task {
	ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
	defer cancel()
	ended, err := s.Tasks.WaitEnd(ctx, id)
	require.NoError(t, err, "%v; last seen: %+v", err, ended)
	return ended
}

// succeeds is end of a task that succeeds.
func succeeds(t *testing.T, s *store.Store, id int64) store.Task {
	ended := end(t, s, id)
	assert.Equal(t, store.Succeeded, ended.State, "%+v", ended)
	return ended
}

// awaitTask waits until a task is as is says.
func awaitTask(t *testing.T, s *store.Store, id int64, what string, is func(store.Task) bool) {
	testdrive.Eventually(t, what, func() bool {
		now, err := s.Tasks.Get(t.Context(), id)
		require.NoError(t, err)
		return is(now)
	})
}

func held(t store.Task) store.Lease { return store.Lease{ID: t.ID, Epoch: t.Epoch} }

// undoing is a workflow with that cleanup, and whether its failure was recorded as undone.
func undoing(cleanup task.Step, steps ...task.Step) (w task.Workflow, undone *atomic.Bool) {
	undone = &atomic.Bool{}
	return task.Workflow{Steps: steps, Cleanup: []task.Step{cleanup},
		Failed: func(_ *store.Tx, _ task.Memory, all bool) { undone.Store(all) }}, undone
}

// journal notes which steps ran.
type journal struct {
	mu    sync.Mutex
	notes []string
}

func (j *journal) note(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.notes = append(j.notes, s)
}

func (j *journal) is(t *testing.T, want ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	assert.Equal(t, want, j.notes)
}

// step records its name. Each run returns the next of the errors, and then nil.
func (j *journal) step(name string, errs ...error) task.Step {
	return task.Step{Name: name, Progress: "Doing " + name, Do: func(context.Context, *task.Run) error {
		j.note(name)
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}}
}

// hang is a step that says that it began, and ends once it may.
func hang(began chan<- bool, release <-chan bool) task.Step {
	return task.Step{Name: "hang", Do: func(context.Context, *task.Run) error {
		began <- true
		<-release
		return nil
	}}
}

var errBoom = errors.New("boom")

// The errors of a task's steps decide which steps run, how often, and how the task ends.
func TestStepsAndTheirErrors(t *testing.T) {
	t.Parallel()
	errStuck := errors.New("stuck")
	elsewhere := task.RequeueElsewhere(errBoom)
	for _, tt := range []struct {
		name           string
		steps, cleanup func(j *journal) task.Step
		ran            []string
		state          string
		undone         bool   // where it failed: what is recorded of its cleanup
		says           string // in the description or the last error
	}{
		{name: "all is well", steps: func(j *journal) task.Step { return j.step("b") }, ran: []string{"a", "b"},
			state: store.Succeeded},
		{name: "tried again, without the steps before",
			steps: func(j *journal) task.Step { return j.step("b", errBoom, errBoom) }, ran: []string{"a", "b", "b", "b"},
			state: store.Succeeded},
		{name: "given up and undone",
			steps: func(j *journal) task.Step { return j.step("b", errBoom, errBoom, errBoom) },
			cleanup: func(j *journal) task.Step {
				return j.step("undo", errBoom, task.Permanent("There is no way.", errStuck))
			},
			ran: []string{"a", "b", "b", "b", "undo", "undo", "undo"}, state: store.Failed, undone: true,
			says: "step b: boom; undoing it: step undo: There is no way. (stuck)"},
		{name: "given up, and so is undoing it",
			steps:   func(j *journal) task.Step { return j.step("b", errBoom, errBoom, errBoom) },
			cleanup: func(j *journal) task.Step { return j.step("undo", slices.Repeat([]error{errBoom}, 15)...) },
			ran:     append([]string{"a", "b", "b", "b"}, slices.Repeat([]string{"undo"}, 15)...),
			state:   store.Failed, says: "boom"},
		{name: "permanent", steps: func(j *journal) task.Step {
			return j.step("b", task.Permanent("Choose another.", errBoom))
		}, ran: []string{"a", "b"}, state: store.Failed, undone: true, says: "Choose another."},
		{name: "for another process, which counts as no attempt", steps: func(j *journal) task.Step {
			return j.step("b", elsewhere, elsewhere, elsewhere, errBoom)
		}, ran: []string{"a", "b", "b", "b", "b", "b"}, state: store.Succeeded},
		{name: "a panic", steps: func(j *journal) task.Step {
			return task.Step{Name: "b", Do: func(context.Context, *task.Run) error { panic("boom") }}
		}, ran: []string{"a"}, state: store.Failed, undone: true, says: "boom"},
		{name: "a step that hangs", steps: func(j *journal) task.Step {
			return task.Step{Name: "b", Timeout: 20 * time.Millisecond, Do: func(ctx context.Context, _ *task.Run) error {
				j.note("b")
				<-ctx.Done()
				return ctx.Err()
			}}
		}, ran: []string{"a", "b", "b", "b"}, state: store.Failed, undone: true, says: "timed out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, j := parallel(t), &journal{}
			var undone atomic.Bool
			w := task.Workflow{Steps: []task.Step{j.step("a"), tt.steps(j)},
				Failed: func(_ *store.Tx, _ task.Memory, all bool) { undone.Store(all) }}
			if tt.cleanup != nil {
				w.Cleanup = []task.Step{tt.cleanup(j)}
			}
			r := startWith(t, s, w, task.Config{Attempts: 3})
			recorded := record(t, s, store.NewTask{})
			r.Nudge()
			got := end(t, s, recorded.ID)
			assert.True(t, got.State == tt.state && strings.Contains(got.Description+got.LastError, tt.says), "%+v", got)
			assert.False(t, got.State == store.Failed && undone.Load() != tt.undone,
				"the outcome was recorded as undone: %t", !tt.undone)
			j.is(t, tt.ran...)
		})
	}
}

func TestAnotherProcessTakesOverFromADeadOne(t *testing.T) {
	s, j := parallel(t), &journal{}
	// A process took the task, finished a step and died: nobody renews its lease.
	dead := record(t, s, store.NewTask{Owner: "dead", LeaseTTL: 100 * time.Millisecond})
	require.NoError(t, s.Queue.Progress(t.Context(), held(dead), "a", "…", false))
	start(t, s, task.Workflow{Steps: []task.Step{j.step("a"), j.step("b")}})
	succeeds(t, s, dead.ID)
	j.is(t, "b")
}

// What a process works on when it stops goes on elsewhere, without waiting for the lease to run out.
func TestStopHandsOver(t *testing.T) {
	s, j := parallel(t), &journal{}
	started := make(chan bool, 8)
	first := start(t, s, task.Workflow{Steps: []task.Step{j.step("a"), {Name: "b",
		Do: func(ctx context.Context, _ *task.Run) error {
			started <- true
			<-ctx.Done()
			return context.Cause(ctx)
		}}}})
	recorded := record(t, s, store.NewTask{})
	testdrive.Receive(t, started, "step b begins")
	first.Stop()
	handed, err := s.Tasks.Get(t.Context(), recorded.ID)
	assert.True(t, err == nil && handed.State == store.InProgress && !handed.Leased && handed.Attempt == 0, "%+v, %v", handed, err)
	start(t, s, task.Workflow{Steps: []task.Step{j.step("a"), j.step("b")}})
	succeeds(t, s, recorded.ID)
	j.is(t, "a", "b")
}

func TestTaskThatKeepsKillingItsProcessFails(t *testing.T) {
	s, j := parallel(t), &journal{}
	recorded := record(t, s, store.NewTask{})
	const attempts = 3
	for range attempts + 1 {
		_, err := s.Queue.Claim(t.Context(), "dies", -time.Second, store.Passed{})
		require.NoError(t, err)
	}
	w, undone := undoing(j.step("undo"), j.step("a"))
	startWith(t, s, w, task.Config{Attempts: attempts})
	got := end(t, s, recorded.ID)
	assert.Equal(t, store.Failed, got.State, "%+v", got)
	assert.Equal(t, "Doing a failed. Try again. If it fails again, tell your operator about "+task.Token(recorded.ID)+".",
		got.Description)
	assert.True(t, undone.Load(), "it is not undone")
	j.is(t, "undo")
}

// A step that ignores the loss of its lease continues, in the same process that takes the task over.
func TestProcessThatTakesOverFromItselfWaitsForItself(t *testing.T) {
	s, j := parallel(t), &journal{}
	started, proceed := make(chan bool, 8), make(chan bool)
	runs := 0
	start(t, s, task.Workflow{Steps: []task.Step{{Name: "a", Do: func(_ context.Context, run *task.Run) error {
		j.note("begin")
		defer j.note("end")
		started <- true
		if runs++; runs == 1 {
			<-proceed
		}
		return run.Alive()
	}}}})
	recorded := record(t, s, store.NewTask{})
	testdrive.Receive(t, started, "the step begins")
	current, err := s.Tasks.Get(t.Context(), recorded.ID)
	require.NoError(t, err)
	require.NoError(t, s.Queue.Release(t.Context(), held(current)))
	awaitTask(t, s, recorded.ID, "the task is claimed again", func(now store.Task) bool { return now.Epoch >= recorded.Epoch+2 })
	close(proceed)
	succeeds(t, s, recorded.ID)
	j.is(t, "begin", "end", "begin", "end")
}

func TestLeaseThatNobodyHoldsRunsOutThoughItsProcessIsBusy(t *testing.T) {
	s := parallel(t)
	proceed := make(chan bool)
	defer close(proceed)
	r := startWith(t, s, task.Workflow{Steps: []task.Step{{Name: "a", Do: func(_ context.Context, run *task.Run) error {
		if run.Task.InstanceID == "busy" {
			<-proceed
		}
		return nil
	}}}}, task.Config{LeaseTTL: shortLease})
	recordOf(t, s, "busy", store.NewTask{})
	// The commit landed, its answer was lost, and so nobody works on it.
	lost, _ := leased(t, s, r, "lost")
	succeeds(t, s, lost.ID)
}

// If the machine stalls for longer than a lease, the lease expires, which proves nothing: then the test tries again.
func TestLongStepKeepsItsLease(t *testing.T) {
	t.Parallel()
	j, ranOut := runLongStep(t)
	for tries := 1; ranOut && tries < 3; tries++ {
		j, ranOut = runLongStep(t)
	}
	j.is(t, "a")
}

// runLongStep has two runners run a task that takes longer than a lease, and reports whether a lease expired.
func runLongStep(t *testing.T) (j *journal, ranOut bool) {
	s := servers.Store(t)
	j = &journal{}
	var runOuts atomic.Int32
	w := task.Workflow{Steps: []task.Step{{Name: "a", Do: func(ctx context.Context, run *task.Run) error {
		j.note("a")
		select {
		case <-ctx.Done():
		case <-time.After(briskLease + briskLease/2):
		}
		return errors.Join(ctx.Err(), run.Alive())
	}}}}
	for range 2 {
		startWith(t, s, w, task.Config{LeaseTTL: briskLease, OnRunOut: func() { runOuts.Add(1) }})
	}
	succeeds(t, s, record(t, s, store.NewTask{}).ID)
	return j, runOuts.Load() > 0
}

func TestProgressIsNumberedByStep(t *testing.T) {
	s := parallel(t)
	seen := make(chan string, 4)
	look := func(ctx context.Context, run *task.Run) error {
		now, err := s.Tasks.Get(ctx, run.Task.ID)
		seen <- now.Description
		return err
	}
	start(t, s, task.Workflow{Steps: []task.Step{
		{Name: "launch", Progress: "Launching", Do: func(ctx context.Context, run *task.Run) error {
			return errors.Join(look(ctx, run), run.Report(ctx, "Preparing"), look(ctx, run), run.Report(ctx, "Starting"),
				look(ctx, run))
		}},
		{Name: "check", Progress: "Checking", Do: look},
	}})
	end(t, s, record(t, s, store.NewTask{}).ID)
	for _, want := range []string{"Launching (1 of 2)", "Preparing (1 of 2)", "Starting (1 of 2)", "Checking (2 of 2)"} {
		assert.Equal(t, want, <-seen, "users saw")
	}
}
