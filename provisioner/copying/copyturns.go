package copying

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"mysql-broker/provisioner/fair"
	"mysql-broker/provisioner/memory"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// copyTurns limits how many copies, backups and restores a broker runs at the same time. Each keeps a worker busy for
// as long as it copies, and takes memory. Further ones wait without a worker, so that quick operations always find one.
// No organization has all turns, neither of a server nor of the broker, and a free one goes to the organization whose
// last one is longest ago. A task that waits for anything else has none.
type copyTurns struct {
	memory *memory.Budget

	mu      sync.Mutex
	pool    fair.Pool
	running map[int64]fair.Holder // by the id of the task, and so are these
	kept    map[int64]time.Time   // until when turns are kept between two steps of their tasks
	resumed map[int64]time.Time   // until when tasks that have had a turn need not wait for another one
	waiting map[int64]waiting
	copies  map[int64]Copy
	last    map[string]time.Time // when an organization had its last turn
}

// waiting is a task that waits for a turn.
type waiting struct {
	of    fair.Holder
	until time.Time // when it is forgotten, unless it asks again
}

// Copy is how far a copy is, in bytes.
type Copy struct {
	Task        int64
	Done, Total uint64 // the total is an estimate
}

// Copies returns how many copies, backups and restores run in this process, and how far the copies are.
func (c *Copier) Copies() (running int, all []Copy) {
	c.turns.mu.Lock()
	defer c.turns.mu.Unlock()
	c.turns.expire(time.Now())
	return len(c.turns.running), slices.Collect(maps.Values(c.turns.copies))
}

// record returns a function that records how far a task's copy is before it calls next.
func (c *copyTurns) record(id int64, next func(done, total uint64)) func(done, total uint64) {
	return func(done, total uint64) {
		c.mu.Lock()
		c.copies[id] = Copy{id, min(done, total), total}
		c.mu.Unlock()
		next(done, total)
	}
}

// forget removes what record has recorded of a task.
func (c *copyTurns) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.copies, id)
}

// newCopyTurns lets copies have half of the workers, and half of those that one server may have, as far as there is
// memory for them.
func newCopyTurns(workers int, m *memory.Budget) *copyTurns {
	return &copyTurns{memory: m,
		pool:    fair.Pool{All: min(max(workers/2, 1), m.Copies()), Each: max(task.ServerShare(workers)/2, 1)},
		running: map[int64]fair.Holder{}, kept: map[int64]time.Time{}, resumed: map[int64]time.Time{},
		waiting: map[int64]waiting{}, copies: map[int64]Copy{}, last: map[string]time.Time{}}
}

const (
	// keepTurn is how long a turn is kept for a task that does not go on here.
	keepTurn = time.Minute
	// resumeTurn is how long a task need not wait for a turn after an attempt that ended early.
	resumeTurn = 10 * time.Minute
	// waitsForTurn is how long a task counts as waiting that does not ask again.
	waitsForTurn = 5 * copyTurnInterval
	// remembersTurn is for how long an organization's last turn counts.
	remembersTurn = time.Hour
)

// begin gives a task a turn, or says for what it waits.
func (c *copyTurns) begin(t store.Task) (wait string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if _, has := c.kept[t.ID]; has {
		delete(c.kept, t.ID)
		return ""
	}
	c.release(t.ID) // of an attempt that has lost its lease
	c.expire(now)
	of := fair.Holder{Server: t.Server, Organization: t.Organization}
	if _, resumes := c.resumed[t.ID]; !resumes && (!c.pool.Room(of) || c.precedes(of)) {
		c.waiting[t.ID] = waiting{of, now.Add(waitsForTurn)}
		return "Waiting until other copies have ended"
	}
	if !c.memory.TryBegin() {
		return waitingForMemory
	}
	delete(c.resumed, t.ID)
	delete(c.waiting, t.ID)
	c.running[t.ID], c.last[t.Organization] = of, now
	c.pool.Take(of)
	return ""
}

// precedes reports whether a task of another organization waits for the turn that of could have, and goes first.
func (c *copyTurns) precedes(of fair.Holder) bool {
	lastOfAll := c.pool.Held(fair.Holder{})+1 >= c.pool.All
	for _, w := range c.waiting {
		earlier := c.last[w.of.Organization].Before(c.last[of.Organization])
		if earlier && (lastOfAll || w.of.Server == of.Server) && c.pool.Room(w.of) {
			return true
		}
	}
	return false
}

func (c *copyTurns) end(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(id)
}

// release is end. The caller holds mu.
func (c *copyTurns) release(id int64) {
	if of, has := c.running[id]; has {
		delete(c.running, id)
		delete(c.kept, id)
		c.pool.Free(of)
		c.memory.End()
	}
}

// keep keeps the turn of a task for its next step.
func (c *copyTurns) keep(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[id] = time.Now().Add(keepTurn)
}

// leave ends the turn of a task, which gets another one at once when it goes on, even if there is none.
func (c *copyTurns) leave(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(id)
	c.resumed[id] = time.Now().Add(resumeTurn)
}

// expire ends the turns of tasks that have not gone on, and forgets those that no longer wait.
func (c *copyTurns) expire(now time.Time) {
	for id, until := range c.kept {
		if now.After(until) {
			c.release(id)
		}
	}
	maps.DeleteFunc(c.resumed, func(_ int64, until time.Time) bool { return now.After(until) })
	maps.DeleteFunc(c.waiting, func(_ int64, w waiting) bool { return now.After(w.until) })
	maps.DeleteFunc(c.last, func(_ string, at time.Time) bool { return now.Sub(at) > remembersTurn })
}

// copyTurnInterval is how often a waiting copy checks whether it may begin.
const copyTurnInterval = time.Second

// WithMemory runs fn, which copies, outside of any turn: it waits for the memory of a copy.
func (c *Copier) WithMemory(ctx context.Context, run *task.Run, fn func() error) error {
	if !c.memory.TryBegin() {
		if err := run.Report(ctx, waitingForMemory); err != nil {
			return err
		}
		if err := c.memory.Begin(ctx); err != nil {
			return context.Cause(ctx)
		}
	}
	defer c.memory.End()
	return fn()
}

// InTurn returns a Do function that waits for its turn to copy.
func (c *Copier) InTurn(do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) error {
		if wait := c.turns.begin(run.Task); wait != "" {
			return task.Queued(copyTurnInterval, wait)
		}
		defer c.turns.end(run.Task.ID)
		return do(ctx, run)
	}
}

// KeepingTurn is InTurn for steps during which applications cannot write: the task keeps its turn until the last of
// them succeeds. If a step fails, or waits for something, others have the turn until it runs again, which is at once.
func (c *Copier) KeepingTurn(last bool,
	do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) (err error) {
		if wait := c.turns.begin(run.Task); wait != "" {
			return task.Queued(copyTurnInterval, wait)
		}
		defer func() {
			switch {
			case err != nil:
				c.turns.leave(run.Task.ID)
			case last:
				c.turns.end(run.Task.ID)
			default:
				c.turns.keep(run.Task.ID)
			}
		}()
		return do(ctx, run)
	}
}
