package dashboard

import (
	"context"
	"sync"
	"time"

	"mysql-broker/provisioner/fair"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

// DefaultAnswerTime is Config.AnswerTime unless that is set.
const DefaultAnswerTime = 3 * time.Second

const (
	inspectAgain = 5 * time.Second // the age at which a server's response is no longer used
	// inspectAtOnce limits concurrent inspections on a shared server, so that pages take no connections from operations.
	// One organization has one at a time. A dedicated server has only one instance.
	inspectAtOnce = 2
)

type inspectFunc = func(ctx context.Context, i store.Instance, accounts []string) (steps.Inspection, error)

// inspections queries servers about instances that have viewers. Viewers of the same instance share a query.
type inspections struct {
	inspect inspectFunc
	limit   time.Duration // on waiting for a server, and on waiting for a slot before

	mu        sync.Mutex
	latest    map[inspected]*inspection // running ones, and results younger than inspectAgain
	perServer map[string]*fair.Slots    // of shared servers
}

// inspected identifies an instance between two changes: a result from before a change is not used after it.
type inspected struct {
	database  string // its name is never reused
	structure string // see structureStamp
}

type inspection struct {
	steps.Inspection
	err  error
	done chan struct{} // closed once the others are set
}

func newInspections(inspect inspectFunc, limit time.Duration) *inspections {
	return &inspections{inspect: inspect, limit: limit, latest: map[inspected]*inspection{},
		perServer: map[string]*fair.Slots{}}
}

// of returns what an instance's server reports, or a result from some seconds ago if the instance has not changed
// since. It returns within twice the limit. If a server did not respond, the next call queries it again.
func (n *inspections) of(ctx context.Context, i store.Instance, structure string,
	accounts []string) (steps.Inspection, error) {
	one := n.begin(i, structure, accounts)
	select {
	case <-one.done:
		return one.Inspection, one.err
	case <-ctx.Done():
		return steps.Inspection{}, ctx.Err()
	}
}

func (n *inspections) begin(i store.Instance, structure string, accounts []string) *inspection {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := inspected{i.Database, structure}
	if known := n.latest[key]; known != nil {
		return known
	}
	one := &inspection{done: make(chan struct{})}
	n.latest[key] = one
	turns := n.turns(i.Location)
	go func() {
		one.Inspection, one.err = n.ask(turns, i, accounts)
		close(one.done)
		if one.err != nil {
			n.forget(key)
			return
		}
		time.AfterFunc(inspectAgain, func() { n.forget(key) })
	}()
	return one
}

func (n *inspections) forget(key inspected) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.latest, key)
}

// turns returns the slots of a shared server; the caller holds mu. Dedicated servers need none.
func (n *inspections) turns(at store.Location) *fair.Slots {
	if at.Dedicated() {
		return nil
	}
	if n.perServer[at.Server] == nil {
		n.perServer[at.Server] = fair.NewSlots(inspectAtOnce)
	}
	return n.perServer[at.Server]
}

// ask does not depend on one request: others may wait for the same result.
func (n *inspections) ask(turns *fair.Slots, i store.Instance, accounts []string) (steps.Inspection, error) {
	if turns != nil {
		waiting, stop := context.WithTimeout(context.Background(), n.limit)
		defer stop()
		free, err := turns.Take(waiting, i.OrganizationGUID)
		if err != nil {
			return steps.Inspection{}, err
		}
		defer free()
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.limit)
	defer cancel()
	return n.inspect(ctx, i, accounts)
}
