package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"mysql-broker/store"
)

// Kind is what a runner knows of one kind of task.
type Kind struct {
	// Workflow finds the workflow of a task that was recorded earlier, maybe by another process. It may read the store,
	// and returns an error if the task has to wait until what it needs is there.
	Workflow func(context.Context, store.Task) (Workflow, error)

	// Advice is what a user can do if a task of this kind fails: "Bind again later."
	Advice string

	// AdviceOf is used instead of Advice if what users can do depends on the task.
	AdviceOf func(store.Task) string

	// Undoable says that the workflow has a cleanup, so that operators can cancel it. What other workflows remove does not
	// come back.
	Undoable bool

	// Adds says that the workflow only adds something to an instance that is recorded. Such tasks are recorded and go on
	// during a store.Hold.
	Adds bool

	// Schedule says when brokers record tasks of this kind by themselves.
	Schedule store.Schedule
}

// advice is what a user can do if t fails.
func (k Kind) advice(t store.Task) string {
	if k.AdviceOf != nil {
		return k.AdviceOf(t)
	}
	return k.Advice
}

// recordScheduled records the tasks that are due by the schedules of their kinds. checked has the kinds whose recorded
// times this process has compared with their schedules, which can differ from those of an earlier release.
func (r *Runner) recordScheduled(ctx context.Context, checked map[string]bool) error {
	if !slices.ContainsFunc(slices.Collect(maps.Values(r.kinds)), func(k Kind) bool { return k.Schedule.Every > 0 }) {
		return nil
	}
	waits, err := r.store.Tasks.ScheduleWaits(ctx)
	if err != nil {
		return fmt.Errorf("read when scheduled tasks are due: %w", err)
	}
	var failed error
	for name, kind := range r.kinds {
		wait, recorded := waits[name]
		sleeps := recorded && checked[name] && wait > 0 && wait <= kind.Schedule.Every
		if kind.Schedule.Every == 0 || sleeps {
			continue
		}
		_, err := r.store.Tasks.RecordScheduled(ctx, name, kind.Schedule)
		if err == nil {
			r.Nudge()
		} else if !errors.Is(err, store.ErrNotFound) {
			failed = errors.Join(failed, fmt.Errorf("record a task of kind %q: %w", name, err))
			continue
		}
		checked[name] = true
	}
	return failed
}

// RunNow records a task of a scheduled kind, before the next is due, and returns it. If one is in progress, it returns
// that one, and another one follows. During a store.Hold, it returns store.ErrHeld.
func RunNow(ctx context.Context, s *store.Store, name string, kind Kind) (store.Task, error) {
	if err := s.Recovery.Held(ctx); err != nil {
		return store.Task{}, err
	}
	if err := s.Tasks.MakeDue(ctx, name); err != nil {
		return store.Task{}, fmt.Errorf("make a task of kind %q due: %w", name, err)
	}
	t, err := s.Tasks.RecordScheduled(ctx, name, kind.Schedule)
	if errors.Is(err, store.ErrNotFound) { // one is in progress, or a broker has just recorded it
		t, err = s.Tasks.Latest(ctx, "", "", name)
	}
	if err != nil {
		return t, fmt.Errorf("record a task of kind %q: %w", name, err)
	}
	return t, nil
}

// workflow finds the workflow of a task. One of a kind that this release does not know waits for a process that does.
func (r *Runner) workflow(ctx context.Context, t store.Task) (Workflow, error) {
	kind, known := r.kinds[t.Kind]
	if !known {
		return Workflow{}, fmt.Errorf("this release knows no tasks of kind %q", t.Kind)
	}
	return kind.Workflow(ctx, t)
}
