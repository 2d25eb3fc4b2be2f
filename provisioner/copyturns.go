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
	by      map[string]int // by the server of the task
	copies  map[int64]Copy // by the id of the task
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
	return p.copies.running, slices.Collect(maps.Values(p.copies.copies))
}

// note returns a function that notes how far a task's copy is before it calls next.
func (c *copyTurns) note(id int64, next func(done, total uint64)) func(done, total uint64) {
	return func(done, total uint64) {
		c.mu.Lock()
		c.copies[id] = Copy{id, done, total}
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
		copies: map[int64]Copy{}}
}

func (c *copyTurns) begin(server string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	c.running--
	if c.by[server]--; c.by[server] == 0 {
		delete(c.by, server)
	}
}

// copyTurnEach is how often a waiting copy checks whether it may begin.
const copyTurnEach = time.Second

// inTurn returns a Do function that waits for its turn to copy.
func (p *Provisioner) inTurn(do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) error {
		if !p.copies.begin(run.Task.Server) {
			return task.Pending(copyTurnEach, "Waiting until other copies have ended")
		}
		defer p.copies.end(run.Task.Server)
		return do(ctx, run)
	}
}
