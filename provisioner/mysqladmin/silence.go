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
// seconds with the cause ErrSilent. It ends within a few seconds if another node of a cluster accepts writes instead.
// Work that takes long on a server that answers goes on. Call stop at the end.
//
// The kernel still accepts connections for a process that was stopped, or whose disk hangs. Without a deadline, clients
// would wait for it for ever.
func (s *Server) Attend(ctx context.Context) (attended context.Context, stop func()) {
	attended, cancel := context.WithCancelCause(ctx)
	interval, missed := attendInterval, 0
	silent := func() bool {
		missed++
		if s.answers(attended) {
			missed = 0
		}
		return missed == silences
	}
	if s.nodes != nil {
		s.nodes.find(attended)
		began := s.nodes.primaryChanges()
		interval = checkInterval
		silent = func() bool {
			answers := s.nodes.checkPrimary(attended)
			return !answers || s.nodes.primaryChanges() != began // the work may wait for the node before
		}
	}
	var mu sync.Mutex // guards timer, which may fire before it is set
	var timer *time.Timer
	ask := func() {
		switch {
		case attended.Err() != nil:
			return
		case silent():
			cancel(ErrSilent)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		timer.Reset(interval)
	}
	mu.Lock()
	timer = time.AfterFunc(interval, ask)
	mu.Unlock()
	return attended, func() {
		cancel(context.Canceled)
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
	}
}

// answers reports whether the server, or its host, reacts to a login in time. It uses a new connection, because those
// of the pools may all be waiting.
func (s *Server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, silenceTimeout)
	defer cancel()
	probe := sql.OpenDB(s.connector)
	defer probe.Close()
	err := probe.PingContext(ctx) // a refusal is a reaction
	timeout, ok := errors.AsType[net.Error](err)
	return ctx.Err() == nil && !(ok && timeout.Timeout())
}
