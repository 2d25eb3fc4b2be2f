package copying

import (
	"context"
	"sync"

	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
)

// OptionsFor are Options for what is copied into an instance of a plan.
func (c *Copier) OptionsFor(ctx context.Context, run *task.Run, of plan.Plan, point string,
	sentence func(done, total uint64) string) transfer.Options {
	o := c.Options(ctx, run, point, sentence)
	o.Events, o.MaxBytes = of.Events, 4*of.Quota()+64<<20
	return o
}

const waitingForMemory = "Waiting for memory of the broker that other copies use"

// Options are those of a copy, a dump or a load for a task, which reports its progress, and whether it waits for
// memory.
func (c *Copier) Options(ctx context.Context, run *task.Run, point string,
	sentence func(done, total uint64) string) transfer.Options {
	var mu sync.Mutex // of what workers report
	progress := c.ReportProgress(ctx, run, point, sentence)
	return transfer.Options{Alive: run.Alive, MaxDefinitions: c.memory.Definitions(),
		Progress: func(done, total uint64) {
			mu.Lock()
			defer mu.Unlock()
			progress(done, total)
		},
		Reserve: c.reserve(run, &mu)}
}

// Reserve is that of Options for a task that does nothing else meanwhile.
func (c *Copier) Reserve(run *task.Run) func(context.Context, int64) (release func(), err error) {
	return c.reserve(run, new(sync.Mutex))
}

// reserve is Reserve for a task that reports under a lock.
func (c *Copier) reserve(run *task.Run, mu *sync.Mutex) func(context.Context, int64) (release func(), err error) {
	return func(ctx context.Context, bytes int64) (func(), error) {
		return c.memory.Reserve(ctx, bytes, func() error {
			mu.Lock()
			defer mu.Unlock()
			return run.Report(ctx, waitingForMemory)
		})
	}
}
