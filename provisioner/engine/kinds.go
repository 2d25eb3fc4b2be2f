package engine

import (
	"context"
	"time"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Kind is what all tasks of one kind have in common. Maker makes the workflows.
type Kind[Maker any] struct {
	task.Kind        // without its workflow
	Beginning string // what users read until the first step begins, or while a request waits for the task

	// Workflow finds the workflow of a task that was recorded earlier, maybe by another process. Steps that need the
	// plan look it up themselves: if it is not in the catalog, they wait for a broker that knows it, and the cleanup runs
	// without it.
	Workflow func(ctx context.Context, maker Maker, t store.Task) (task.Workflow, error)
}

// Scheduled returns a kind whose tasks brokers record by themselves, so often. Its workflow has one step.
func Scheduled[Maker any](every time.Duration, step task.Step,
	do func(Maker, context.Context, *task.Run) error) Kind[Maker] {
	return Kind[Maker]{Kind: task.Kind{Schedule: store.Schedule{Every: every}},
		Workflow: func(_ context.Context, maker Maker, _ store.Task) (task.Workflow, error) {
			step := step
			step.Do = func(ctx context.Context, run *task.Run) error { return do(maker, ctx, run) }
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

// Add adds the kinds whose workflows maker makes. It may be nil if no workflow is asked for.
func Add[Maker any](all Kinds, maker Maker, kinds map[string]Kind[Maker]) {
	for name, k := range kinds {
		added := known{k.Kind, k.Beginning}
		added.Workflow = func(ctx context.Context, t store.Task) (task.Workflow, error) { return k.Workflow(ctx, maker, t) }
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
