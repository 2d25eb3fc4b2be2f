package mysqladmin

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// attendInterval is how long work on a server may take before the server is probed, and the interval of the probes.
	attendInterval = 5 * time.Second
	// silenceTimeout bounds a probe.
	silenceTimeout = 5 * time.Second
	// silences is how many probes in a row must fail. On a busy machine, one may fail.
	silences = 2
)

// ErrSilent ends the context of Attend.
var ErrSilent = errors.New("the server accepts connections but does not answer")

// Attend returns a context for work on the server. If the server stops answering, the context ends after some 20
// seconds with the cause ErrSilent. Work that takes long on a server that answers goes on. Call stop at the end.
//
// The kernel still accepts connections for a process that was stopped, or whose disk hangs. Without a deadline, clients
// would wait for it for ever.
func (s *Server) Attend(ctx context.Context) (attended context.Context, stop func()) {
	attended, cancel := context.WithCancelCause(ctx)
	if s.nodes != nil { // finds the primary, if no connection was made yet; the work reports what is wrong
		finding, found := context.WithTimeout(attended, silenceTimeout)
		_ = s.Ping(finding)
		found()
	}
	var mu sync.Mutex // guards timer, which may fire before it is set
	var timer *time.Timer
	missed, began := 0, s.nodes.primaryChanges()
	ask := func() {
		if attended.Err() != nil {
			return
		}
		if s.nodes.primaryChanges() != began { // the work may wait for the node before
			cancel(ErrSilent)
			return
		}
		missed++
		if s.nodes != nil && s.nodes.cutOff(attended) {
			missed = silences
		} else if s.answers(attended) {
			missed = 0
		}
		if missed == silences {
			cancel(ErrSilent)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		timer.Reset(attendInterval)
	}
	mu.Lock()
	timer = time.AfterFunc(attendInterval, ask)
	mu.Unlock()
	return attended, func() {
		cancel(context.Canceled)
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
	}
}

// cutOff reports whether the primary of a cluster says that it accepts no writes any more. If so, its open connections
// are not used again. It may only let statements wait, for as long as the network does not connect it to the others. A
// donor finishes what it has begun.
func (n *nodes) cutOff(ctx context.Context) bool {
	primary, _ := n.state()
	conn, err := n.all[primary].connectToWrite(ctx)
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, errReadOnlyNode) || errors.Is(err, errDonor) {
		return false
	}
	_ = n.demoted(err)
	return true
}

// answers reports whether the server, or its host, reacts to a login in time. It uses a new connection, because those
// of the pools may all be waiting.
func (s *Server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, silenceTimeout)
	defer cancel()
	probe := sql.OpenDB(s.nodes.primaryOr(s.connector))
	defer probe.Close()
	err := probe.PingContext(ctx) // a refusal is a reaction
	timeout, ok := errors.AsType[net.Error](err)
	return ctx.Err() == nil && !(ok && timeout.Timeout())
}
