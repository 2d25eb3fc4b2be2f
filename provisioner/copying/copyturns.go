package copying

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"mysql-broker/provisioner/task"
)

// copyTurns limits how many copies, backups and restores a broker runs at the same time. Each keeps a worker busy for
// as long as it copies. Further ones wait without a worker, so that quick operations always find one. One turn of all,
// and one of each server, is not for copies with SQL of a tenant, which may sleep (bootstrap).
type copyTurns struct {
	all, each int // the limits: of all copies, and of those of each server

	mu      sync.Mutex
	running map[int64]turn      // by the id of the task, and so are these
	kept    map[int64]time.Time // until when turns are kept between two steps of their tasks
	copies  map[int64]Copy
}

// turn is what a copy has while it runs.
type turn struct {
	server     string // of the task
	bootstraps bool   // it runs SQL of a tenant
}

// Copy is how far a copy is, in bytes.
type Copy struct {
	Task        int64
	Done, Total uint64 // the total is an estimate
}

// Copies returns how many copies, backups and restores run in this process, and how far the copies are.
func (p *Copier) Copies() (running int, all []Copy) {
	p.turns.mu.Lock()
	defer p.turns.mu.Unlock()
	p.turns.releaseKept()
	return len(p.turns.running), slices.Collect(maps.Values(p.turns.copies))
}

// note returns a function that notes how far a task's copy is before it calls next.
func (c *copyTurns) note(id int64, next func(done, total uint64)) func(done, total uint64) {
	return func(done, total uint64) {
		c.mu.Lock()
		c.copies[id] = Copy{id, min(done, total), total}
		c.mu.Unlock()
		next(done, total)
	}
}

// forget removes what note has recorded of a task.
func (c *copyTurns) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.copies, id)
}

// newCopyTurns lets copies have half of the workers, and half of those that one server may have.
func newCopyTurns(workers int) *copyTurns {
	workers = cmp.Or(workers, task.DefaultWorkers)
	return &copyTurns{all: max(workers/2, 1), each: max(task.ServerShare(workers)/2, 1),
		running: map[int64]turn{}, kept: map[int64]time.Time{}, copies: map[int64]Copy{}}
}

// keepTurn is how long a turn is kept for a task that does not go on here.
const keepTurn = time.Minute

func (c *copyTurns) begin(id int64, t turn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, has := c.kept[id]; has {
		delete(c.kept, id)
		return true
	}
	c.releaseKept()
	var onServer, bootstraps, bootstrapsOnServer int
	for _, r := range c.running {
		there := t.server != "" && r.server == t.server
		if there {
			onServer++
		}
		if r.bootstraps {
			bootstraps++
		}
		if r.bootstraps && there {
			bootstrapsOnServer++
		}
	}
	if len(c.running) >= c.all || onServer >= c.each ||
		t.bootstraps && (bootstraps >= max(c.all-1, 1) || bootstrapsOnServer >= max(c.each-1, 1)) {
		return false
	}
	c.running[id] = t
	return true
}

func (c *copyTurns) end(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, id)
}

// keep keeps the turn of a task for its next step.
func (c *copyTurns) keep(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[id] = time.Now().Add(keepTurn)
}

// releaseKept ends the turns of tasks that have not gone on.
func (c *copyTurns) releaseKept() {
	for id, until := range c.kept {
		if time.Now().After(until) {
			delete(c.kept, id)
			delete(c.running, id)
		}
	}
}

// copyTurnInterval is how often a waiting copy checks whether it may begin.
const copyTurnInterval = time.Second

// InTurn returns a Do function that waits for its turn to copy.
func (p *Copier) InTurn(do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return p.inTurnWith(false, do)
}

// inTurnWith is InTurn for a copy that runs SQL of a tenant, if bootstraps is true.
func (p *Copier) inTurnWith(bootstraps bool,
	do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) error {
		if !p.turns.begin(run.Task.ID, turn{run.Task.Server, bootstraps}) {
			return waitForTurn()
		}
		defer p.turns.end(run.Task.ID)
		return do(ctx, run)
	}
}

// KeepingTurn is InTurn for steps during which applications cannot write: the task keeps its turn until the last of
// them succeeds, so that it need not wait again.
func (p *Copier) KeepingTurn(last bool,
	do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) (err error) {
		if !p.turns.begin(run.Task.ID, turn{server: run.Task.Server}) {
			return waitForTurn()
		}
		defer func() {
			if last && err == nil {
				p.turns.end(run.Task.ID)
			} else {
				p.turns.keep(run.Task.ID)
			}
		}()
		return do(ctx, run)
	}
}

func waitForTurn() error {
	return task.Queued(copyTurnInterval, "Waiting until other copies have ended")
}
