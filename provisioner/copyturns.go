package provisioner

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
// as long as it copies. Further ones wait without a worker, so that quick operations always find one.
type copyTurns struct {
	all, each int // the limits: of all copies, and of those of each server

	mu      sync.Mutex
	running int
	by      map[string]int     // by the server of the task
	kept    map[int64]keptTurn // by the id of the task
	copies  map[int64]Copy     // by the id of the task
}

// Copy is how far a copy is, in bytes.
type Copy struct {
	Task        int64
	Done, Total uint64 // the total is an estimate
}

// Copies returns how many copies, backups and restores run in this process, and how far the copies are.
func (p *Provisioner) Copies() (running int, all []Copy) {
	p.copies.mu.Lock()
	defer p.copies.mu.Unlock()
	p.copies.releaseKept()
	return p.copies.running, slices.Collect(maps.Values(p.copies.copies))
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
	return &copyTurns{all: max(workers/2, 1), each: max(task.ServerShare(workers)/2, 1), by: map[string]int{},
		kept: map[int64]keptTurn{}, copies: map[int64]Copy{}}
}

// keptTurn is a turn between two steps of a task.
type keptTurn struct {
	server string
	until  time.Time
}

// keepTurn is how long a turn is kept for a task that does not go on here.
const keepTurn = time.Minute

func (c *copyTurns) begin(id int64, server string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, has := c.kept[id]; has {
		delete(c.kept, id)
		return true
	}
	c.releaseKept()
	if c.running == c.all || server != "" && c.by[server] == c.each {
		return false
	}
	c.running++
	c.by[server]++
	return true
}

func (c *copyTurns) end(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(server)
}

// keep keeps the turn of a task for its next step.
func (c *copyTurns) keep(id int64, server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[id] = keptTurn{server, time.Now().Add(keepTurn)}
}

// releaseKept ends the turns of tasks that have not gone on.
func (c *copyTurns) releaseKept() {
	for id, k := range c.kept {
		if time.Now().After(k.until) {
			delete(c.kept, id)
			c.release(k.server)
		}
	}
}

func (c *copyTurns) release(server string) {
	c.running--
	if c.by[server]--; c.by[server] == 0 {
		delete(c.by, server)
	}
}

// copyTurnInterval is how often a waiting copy checks whether it may begin.
const copyTurnInterval = time.Second

// inTurn returns a Do function that waits for its turn to copy.
func (p *Provisioner) inTurn(do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) error {
		if !p.copies.begin(run.Task.ID, run.Task.Server) {
			return waitForTurn()
		}
		defer p.copies.end(run.Task.Server)
		return do(ctx, run)
	}
}

// keepingTurn is inTurn for steps during which applications cannot write: the task keeps its turn until the last of
// them succeeds, so that it need not wait again.
func (p *Provisioner) keepingTurn(last bool,
	do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) (err error) {
		if !p.copies.begin(run.Task.ID, run.Task.Server) {
			return waitForTurn()
		}
		defer func() {
			if last && err == nil {
				p.copies.end(run.Task.Server)
			} else {
				p.copies.keep(run.Task.ID, run.Task.Server)
			}
		}()
		return do(ctx, run)
	}
}

func waitForTurn() error {
	return task.Queued(copyTurnInterval, "Waiting until other copies have ended")
}
