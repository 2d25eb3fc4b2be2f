package task

import (
	"context"
	"fmt"

	"mysql-broker/store"
)

// Kind is what a runner knows of one kind of task.
type Kind struct {
	// Workflow finds the workflow of a task that was recorded earlier, maybe by another process. It may read the store,
	// and returns an error if the task has to wait until what it needs is there.
	Workflow func(context.Context, store.Task) (Workflow, error)

	// Advice is what a user can do if a task of this kind fails: "Bind again later."
	Advice string
}

// workflow finds the workflow of a task. One of a kind that this release does not know waits for a process that does.
func (r *Runner) workflow(ctx context.Context, t store.Task) (Workflow, error) {
	kind, known := r.kinds[t.Kind]
	if !known {
		return Workflow{}, fmt.Errorf("this release knows no tasks of kind %q", t.Kind)
	}
	return kind.Workflow(ctx, t)
}
