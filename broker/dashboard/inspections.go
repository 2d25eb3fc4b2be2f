package dashboard

import (
	"context"
	"sync"
	"time"

	"mysql-broker/provisioner"
	"mysql-broker/store"
)

const (
	inspectTime  = 3 * time.Second // to wait for a server
	inspectAgain = 5 * time.Second // after the last answer, or none, a server is asked anew
	// inspectAtOnce is how many instances a shared server, or all dedicated ones together, are asked about at a time:
	// pages must not take connections from operations.
	inspectAtOnce = 2
)

// inspections asks servers about instances for whoever looks at their pages, together where they look at the same.
type inspections struct {
	inspect   func(context.Context, store.Instance, []string) (provisioner.Inspection, error)
	mu        sync.Mutex
	latest    map[string]*inspection // by database, whose name is never used again; for inspectAgain
	perServer map[string]chan struct{}
}

type inspection struct {
	provisioner.Inspection
	err  error
	done chan struct{} // closed once the others are set
}

// of returns what an instance's server tells, or told some seconds ago. It returns within inspectTime.
func (n *inspections) of(ctx context.Context, i store.Instance, accounts []string) (provisioner.Inspection, error) {
	one := n.begin(i, accounts)
	select {
	case <-one.done:
		return one.Inspection, one.err
	case <-ctx.Done():
		return provisioner.Inspection{}, ctx.Err()
	}
}

func (n *inspections) begin(i store.Instance, accounts []string) *inspection {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.latest[i.Database]; known != nil {
		return known
	}
	one := &inspection{done: make(chan struct{})}
	n.latest[i.Database] = one
	turns := n.perServer[i.Server]
	if turns == nil {
		turns = make(chan struct{}, inspectAtOnce)
		n.perServer[i.Server] = turns
	}
	go func() {
		one.Inspection, one.err = n.ask(turns, i, accounts)
		close(one.done)
		time.AfterFunc(inspectAgain, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.latest, i.Database)
		})
	}()
	return one
}

// ask is not bound to a request: others may wait for the same answer.
func (n *inspections) ask(turns chan struct{}, i store.Instance, accounts []string) (provisioner.Inspection, error) {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTime)
	defer cancel()
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return provisioner.Inspection{}, ctx.Err()
	}
	return n.inspect(ctx, i, accounts)
}
