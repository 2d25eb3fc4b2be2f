// Package engine is the road of each operation, whether a platform, a schedule or an operator asks for it: a decision
// in a transaction, which records a task, and the run of that task. It knows tasks, plans and what PostgreSQL records,
// but nothing of MySQL. The operations themselves are in the packages beside it: see Kind.
package engine

import (
	"context"
	"log/slog"
	"time"

	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Engine records operations and runs them. Make it with Store, Plans and Log, and then start it.
type Engine struct {
	Store *store.Store
	Plans plan.Set
	Log   *slog.Logger
	Tasks *task.Runner // set by Start

	kinds Kinds
}

// Start begins to work on tasks of these kinds that are due, including those of processes that died.
func (e *Engine) Start(cfg task.Config, kinds Kinds) {
	e.kinds = kinds
	cfg.Logger = e.Log
	if cfg.MaxWait == nil {
		cfg.MaxWait = e.maxWait
	}
	e.Tasks = task.New(e.Store, kinds.Tasks(), cfg)
}

// maxWait is how long a task may wait for its server: nine tenths of the time for which platforms poll, so that they
// read the outcome before they give up.
func (e *Engine) maxWait(t store.Task) time.Duration {
	polled := e.Plans.Get(t.PlanID).MaxPolling
	if polled == 0 {
		polled = task.DefaultMaxWait
	}
	return polled / 10 * 9
}

// Held returns store.ErrHeld if PostgreSQL is older than the servers, which may hold what is not recorded.
func (e *Engine) Held(ctx context.Context) error { return e.Store.Recovery.Held(ctx) }
