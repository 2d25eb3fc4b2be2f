package engine

import (
	"context"
	"time"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Kind is what all tasks of one kind have in common. Room has the workflows of an operation.
type Kind[Room any] struct {
	task.Kind        // without its workflow
	Beginning string // what users read until the first step begins, or while a request waits for the task

	// Workflow finds the workflow of a task that was recorded earlier, maybe by another process. Steps that need the
	// plan look it up themselves: if it is not in the catalog, they wait for a broker that knows it, and the cleanup runs
	// without it.
	Workflow func(ctx context.Context, room Room, t store.Task) (task.Workflow, error)
}

// Scheduled returns a kind of which brokers record a task by themselves, so often. Its workflow has one step.
func Scheduled[Room any](every time.Duration, step task.Step,
	do func(Room, context.Context, *task.Run) error) Kind[Room] {
	return Kind[Room]{Kind: task.Kind{Schedule: store.Schedule{Every: every}},
		Workflow: func(_ context.Context, room Room, _ store.Task) (task.Workflow, error) {
			step := step
			step.Do = func(ctx context.Context, run *task.Run) error { return do(room, ctx, run) }
			return task.Workflow{Steps: []task.Step{step}}, nil
		}}
}

// Kinds are kinds of tasks by name.
type Kinds map[string]known

// known is a kind whose workflows can be found.
type known struct {
	task.Kind
	beginning string
}

// Add adds the kinds whose workflows are those of a room. The room may be nil if no workflow is asked for.
func Add[Room any](all Kinds, room Room, kinds map[string]Kind[Room]) {
	for name, k := range kinds {
		added := known{k.Kind, k.Beginning}
		added.Workflow = func(ctx context.Context, t store.Task) (task.Workflow, error) { return k.Workflow(ctx, room, t) }
		all[name] = added
	}
}

// Tasks returns the kinds as the task runner wants them.
func (k Kinds) Tasks() map[string]task.Kind {
	all := make(map[string]task.Kind, len(k))
	for name, known := range k {
		all[name] = known.Kind
	}
	return all
}
