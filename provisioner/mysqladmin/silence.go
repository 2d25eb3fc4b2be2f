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
	// A server is asked whether it answers at all once something takes that long, and then again and again.
	attendEach = 5 * time.Second
	// silenceTimeout is how long it may take to let the broker in.
	silenceTimeout = 5 * time.Second
	// silences is how many times in a row it must have failed to. A busy machine can make it miss one.
	silences = 2
)

// ErrSilent ends the context of Attend.
var ErrSilent = errors.New("the server accepts connections but does not answer")

// Attend returns a context for work on the server that ends, with the cause ErrSilent, when the server hangs: some 20
// seconds after it has ceased to answer. Work that takes long on a server that answers goes on. Call stop at the end.
//
// A process that was stopped, or whose disk does not answer, accepts connections still, as the kernel does that for it.
// Without a deadline, what waits for its answer would wait for ever.
func (s *Server) Attend(ctx context.Context) (attended context.Context, stop func()) {
	attended, cancel := context.WithCancelCause(ctx)
	var mu sync.Mutex // of timer, which is set when it may have fired already
	var timer *time.Timer
	missed := 0
	ask := func() {
		if attended.Err() != nil {
			return
		}
		missed++
		if s.answers(attended) {
			missed = 0
		}
		if missed == silences {
			cancel(ErrSilent)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		timer.Reset(attendEach)
	}
	mu.Lock()
	timer = time.AfterFunc(attendEach, ask)
	mu.Unlock()
	return attended, func() {
		cancel(context.Canceled)
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
	}
}

// answers tells whether the server says anything to who logs in, or its host does for it. The connection is a new one:
// those of the pools may all be waiting.
func (s *Server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, silenceTimeout)
	defer cancel()
	probe := sql.OpenDB(s.connector)
	defer probe.Close()
	err := probe.PingContext(ctx) // a refusal is an answer
	timeout, ok := errors.AsType[net.Error](err)
	return ctx.Err() == nil && !(ok && timeout.Timeout())
}
