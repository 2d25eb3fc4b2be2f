package dashboard

import (
	"context"
	"sync"
	"time"

	"mysql-broker/provisioner"
	"mysql-broker/store"
)

const (
	inspectTime  = 3 * time.Second // to wait for a server, and before that for a turn
	inspectAgain = 5 * time.Second // after its answer a server is asked anew
	// inspectAtOnce is how many instances a shared server is asked about at a time: pages must not take connections from
	// operations. A dedicated one is asked about its only instance.
	inspectAtOnce = 2
)

type inspectFunc = func(ctx context.Context, i store.Instance, accounts []string) (provisioner.Inspection, error)

// inspections asks servers about instances for whoever looks at their pages, together where they look at the same.
type inspections struct {
	inspect inspectFunc

	mu        sync.Mutex
	latest    map[inspected]*inspection // those under way, and what was answered within inspectAgain
	perServer map[string]chan struct{}  // shared servers' turns
}

// inspected is an instance between two changes of it: what was true of it before does not hold after one.
type inspected struct {
	database  string // whose name is never used again
	structure string // see structureStamp
}

type inspection struct {
	provisioner.Inspection
	err  error
	done chan struct{} // closed once the others are set
}

func newInspections(inspect inspectFunc) *inspections {
	return &inspections{inspect: inspect, latest: map[inspected]*inspection{}, perServer: map[string]chan struct{}{}}
}

// of returns what an instance's server tells, or told some seconds ago while the instance had the same structure. It
// returns within twice inspectTime. A server that did not answer is asked again by the next call.
func (n *inspections) of(ctx context.Context, i store.Instance, structure string,
	accounts []string) (provisioner.Inspection, error) {
	one := n.begin(i, structure, accounts)
	select {
	case <-one.done:
		return one.Inspection, one.err
	case <-ctx.Done():
		return provisioner.Inspection{}, ctx.Err()
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

// turns are those of a shared server, for whoever holds mu; dedicated servers need none.
func (n *inspections) turns(at store.Location) chan struct{} {
	if at.Dedicated() {
		return nil
	}
	if n.perServer[at.Server] == nil {
		n.perServer[at.Server] = make(chan struct{}, inspectAtOnce)
	}
	return n.perServer[at.Server]
}

// ask is not bound to a request: others may wait for the same answer.
func (n *inspections) ask(turns chan struct{}, i store.Instance, accounts []string) (provisioner.Inspection, error) {
	if turns != nil {
		waiting, stop := context.WithTimeout(context.Background(), inspectTime)
		defer stop()
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-waiting.Done():
			return provisioner.Inspection{}, waiting.Err()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), inspectTime)
	defer cancel()
	return n.inspect(ctx, i, accounts)
}
