package copying

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"mysql-broker/provisioner/memory"
	"mysql-broker/provisioner/task"
)

// copyTurns limits how many copies, backups and restores a broker runs at the same time. Each keeps a worker busy for
// as long as it copies, and takes memory. Further ones wait without a worker, so that quick operations always find one.
// One turn of all, and one of each server, is not for copies with SQL of a tenant, which may sleep (bootstrap).
type copyTurns struct {
	all, each int // the limits: of all copies, and of those of each server
	memory    *memory.Budget

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
func newCopyTurns(workers int, m *memory.Budget) *copyTurns {
	workers = cmp.Or(workers, task.DefaultWorkers)
	return &copyTurns{all: max(workers/2, 1), each: max(task.ServerShare(workers)/2, 1), memory: m,
		running: map[int64]turn{}, kept: map[int64]time.Time{}, copies: map[int64]Copy{}}
}

// keepTurn is how long a turn is kept for a task that does not go on here.
const keepTurn = time.Minute

// begin takes a turn, or says for what the task waits.
func (c *copyTurns) begin(id int64, t turn) (wait string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, has := c.kept[id]; has {
		delete(c.kept, id)
		return ""
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
		return "Waiting until other copies have ended"
	}
	if !c.memory.TryBegin() {
		return waitingForMemory
	}
	c.running[id] = t
	return ""
}

func (c *copyTurns) end(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(id)
}

// release needs the lock.
func (c *copyTurns) release(id int64) {
	delete(c.running, id)
	c.memory.End()
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
			c.release(id)
		}
	}
}

// copyTurnInterval is how often a waiting copy checks whether it may begin.
const copyTurnInterval = time.Second

// WithMemory runs fn, which copies, outside of any turn: it waits for the memory of a copy.
func (p *Copier) WithMemory(ctx context.Context, run *task.Run, fn func() error) error {
	if !p.memory.TryBegin() {
		if err := run.Report(ctx, waitingForMemory); err != nil {
			return err
		}
		if err := p.memory.Begin(ctx); err != nil {
			return context.Cause(ctx)
		}
	}
	defer p.memory.End()
	return fn()
}

// InTurn returns a Do function that waits for its turn to copy.
func (p *Copier) InTurn(do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return p.inTurnWith(false, do)
}

// inTurnWith is InTurn for a copy that runs SQL of a tenant, if bootstraps is true.
func (p *Copier) inTurnWith(bootstraps bool,
	do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) error {
		if wait := p.turns.begin(run.Task.ID, turn{run.Task.Server, bootstraps}); wait != "" {
			return task.Queued(copyTurnInterval, wait)
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
		if wait := p.turns.begin(run.Task.ID, turn{server: run.Task.Server}); wait != "" {
			return task.Queued(copyTurnInterval, wait)
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
