package task_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/logged"
	"mysql-broker/test/testdrive"
)

// recordFor records a task of an instance on a shared server for an organization, with the lease of a runner if there
// is one.
func recordFor(t *testing.T, s *store.Store, server, instanceID, organization string, r *task.Runner) store.Task {
	n := store.NewTask{InstanceID: instanceID, Kind: store.Provision, PlanID: "p"}
	if r != nil {
		n.Owner, n.LeaseTTL = r.Lease()
	}
	recorded, _, err := s.Instances.RecordProvision(t.Context(), store.Asked{At: time.Now()}, store.Instance{ID: instanceID,
		Location: store.SharedLocation(server), Database: "db_" + instanceID, OrganizationGUID: organization}, n,
		store.Room{OnServer: 1000})
	require.NoError(t, err)
	require.Equal(t, server, recorded.Server, "the task is of the server")
	return recorded
}

// A server whose tasks hang uses only its share of the workers, no matter how many of its tasks are due first.
func TestAServerHasItsShareOfWorkers(t *testing.T) {
	s := parallel(t)
	const tasks, share = 20, 3
	for n := range tasks {
		recordFor(t, s, "sick", fmt.Sprint("sick", n), "", nil)
	}
	began, release := make(chan bool, tasks), make(chan bool)
	var atOnce, most atomic.Int32
	var j journal
	resolve := func(_ context.Context, of store.Task) (task.Workflow, error) {
		step := j.step("well")
		if of.Server == "sick" {
			step = task.Step{Name: "hang", Do: func(context.Context, *task.Run) error {
				most.Store(max(most.Load(), atOnce.Add(1)))
				defer atOnce.Add(-1)
				began <- true
				<-release
				return nil
			}}
		}
		return task.Workflow{Steps: []task.Step{step}}, nil
	}
	r := startKinds(t, s, kinds(resolve), task.Config{Workers: 4, ServerWorkers: share})
	for range share {
		testdrive.Receive(t, began, "a task of the sick server begins")
	}
	last := recordFor(t, s, "well", "well", "", nil)
	succeeds(t, s, last.ID)
	// One that a request hands over is no exception.
	direct := recordFor(t, s, "sick", "direct", "", r)
	w, err := resolve(t.Context(), direct)
	require.NoError(t, err)
	r.Start(direct, w, time.Now())
	assert.EqualValues(t, share, atOnce.Load(), "workers at the sick server")
	close(release)
	end(t, s, direct.ID)
	assert.EqualValues(t, share, most.Load(), "workers at the sick server at once")
}

// One organization has many tasks that hang, and were due first. Tasks of another one begin beside them, on the same
// server and on others, and a free worker goes to whom has none. A step that leaves its worker to others keeps no worker.
func TestWorkersGoRoundByOrganization(t *testing.T) {
	s := parallel(t)
	var all []int64
	for n := range 10 {
		all = append(all, recordFor(t, s, "a", fmt.Sprint("greedy a", n), "greedy", nil).ID,
			recordFor(t, s, fmt.Sprint("b", n), fmt.Sprint("greedy b", n), "greedy", nil).ID)
	}
	began, release, wake := make(chan string, 50), make(chan bool), make(chan bool)
	w := task.Workflow{Steps: []task.Step{{Name: "hang",
		Do: func(_ context.Context, run *task.Run) error {
			until := func(end chan bool) error {
				began <- run.Task.Organization
				<-end
				return nil
			}
			if run.Task.Organization == "sleeps" {
				return run.WithoutWorker(func() error { return until(wake) })
			}
			return until(release)
		}}}}
	r := startWith(t, s, w, task.Config{Workers: 8, ServerWorkers: 4})
	next := func(want string) {
		assert.Equal(t, want, testdrive.Receive(t, began, "a task of "+want+" begins"), "a task began of")
	}
	beginsToo := func(server, id, organization string) {
		recordFor(t, s, server, id, organization, nil)
		r.Nudge()
		next(organization)
	}
	for range 6 { // of eight, three of four on server a
		next("greedy")
	}
	// It may have no more of server a, although that has one worker left, and none elsewhere.
	for n := range 5 {
		beginsToo("a", fmt.Sprint("sleeps", n), "sleeps")
	}
	beginsToo("a", "other", "other")
	beginsToo("c", "third", "third")
	recordFor(t, s, "d", "fourth", "fourth", nil) // all workers are busy
	recordFor(t, s, "e", "other e", "other", nil)
	select {
	case of := <-began:
		t.Errorf("a task of %q began, too", of)
	case <-time.After(200 * time.Millisecond):
	}
	release <- true // one worker is free
	next("fourth")
	close(release)
	close(wake)
	for _, id := range all {
		succeeds(t, s, id)
	}
}

// errAway is what a step says that cannot reach its server.
var errAway = task.Unreachable(errors.New("connection refused"))

// Waiting for an unreachable server uses up no attempts. It is logged once, and users read about it meanwhile.
func TestTaskWaitsForItsServer(t *testing.T) {
	s := parallel(t)
	var log logged.Text
	var tries atomic.Int32
	const attempts = 2
	back := make(chan bool)
	w := task.Workflow{Steps: []task.Step{{Name: "a", Progress: "Doing a",
		Do: func(context.Context, *task.Run) error {
			if tries.Add(1) > attempts {
				select {
				case <-back:
					return nil
				default:
				}
			}
			return errAway
		}}}}
	startWith(t, s, w, task.Config{Attempts: attempts, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	recorded := recordFor(t, s, "away", "i", "", nil)
	testdrive.Eventually(t, "it is tried more often than a step that fails", func() bool {
		return tries.Load() > 2*attempts
	})
	awaitTask(t, s, recorded.ID, "it waits", func(now store.Task) bool {
		return now.Attempt == 0 && !now.Leased && strings.Contains(now.Description, "does not answer") &&
			strings.Contains(now.LastError, "connection refused")
	})
	close(back)
	succeeds(t, s, recorded.ID)
	assert.True(t, log.Count("a task waits for its server") == 1 && log.Count("level=") == 1, "the log:\n%s", &log)
}

// A task that waits longer than the platform polls is given up, and so is its cleanup.
func TestWaitingIsGivenUp(t *testing.T) {
	s := parallel(t)
	away := task.Step{Name: "a", Progress: "Doing a", Do: func(context.Context, *task.Run) error { return errAway }}
	undo := away
	undo.Name = "undo"
	w, undone := undoing(undo, away)
	startWith(t, s, w, task.Config{MaxWait: func(store.Task) time.Duration { return time.Second }})
	got := end(t, s, recordFor(t, s, "away", "i", "", nil).ID)
	assert.True(t, got.State == store.Failed && strings.Contains(got.Description, "did not answer") &&
		strings.Count(got.LastError, "connection refused") == 2, "%+v", got)
	assert.False(t, undone.Load(), "the outcome was recorded as undone")
}

// A request that waits for its task gets an error soon. The cleanup waits for the server.
func TestUndoingARequestWaitsForItsServer(t *testing.T) {
	s, j := parallel(t), &journal{}
	w := task.Workflow{Steps: []task.Step{j.step("a", errAway, errAway, errAway)},
		Cleanup: []task.Step{j.step("undo", errAway, errAway, errAway, errAway, errAway)}}
	r := startWith(t, s, w, task.Config{Attempts: 1})
	since := time.Now()
	recorded := recordFor(t, s, "away", "i", "", r)
	_, err := r.Do(t.Context(), recorded, w, since)
	assert.ErrorIs(t, err, errAway, "the request gets")
	got := end(t, s, recorded.ID)
	assert.True(t, got.State == store.Failed && got.Attempt == 0, "%+v", got)
	j.is(t, "a", "a", "a", "undo", "undo", "undo", "undo", "undo", "undo")
}

// If a cleanup would delete more than the task created, the task ends at once, keeps everything, and says so.
func TestKeptWorkEndsATask(t *testing.T) {
	s, j := parallel(t), &journal{}
	var log bytes.Buffer
	w, undone := undoing(j.step("undo", task.Keep("It holds data.", errors.New("a table"))), j.step("a", errBoom, errBoom))
	r := startWith(t, s, w, task.Config{Attempts: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	got := end(t, s, record(t, s, store.NewTask{}).ID)
	r.Stop()
	want := "step a: boom; undoing it: step undo: kept what is there: a table"
	assert.True(t, got.Description == "It holds data." && got.LastError == want && task.Kept(got), "%+v", got)
	assert.False(t, undone.Load(), "the outcome was recorded as undone")
	assert.Contains(t, log.String(), "level=ERROR", "the log:")
	j.is(t, "a", "a", "undo")
}
