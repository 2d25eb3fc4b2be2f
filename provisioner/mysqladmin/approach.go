package mysqladmin

import (
	"context"
	"time"
)

// approachTimeout bounds how long a server that does not answer can keep an Approach waiting.
const approachTimeout = 2 * time.Second

// Approach is a fence that is being opened, while its caller may get no lease yet, or not be allowed to do anything. It
// kills nothing and changes nothing, so that it does no harm then. Call either Fence or Close, once.
type Approach struct {
	opened opened
	ready  chan struct{}
}

// Approach begins to open in the background what Fence opens.
func (s *Server) Approach(ctx context.Context, key string) *Approach {
	a := &Approach{ready: make(chan struct{})}
	go func() {
		defer close(a.ready)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), approachTimeout)
		defer cancel()
		a.opened = s.open(ctx, key)
	}()
	return a
}

// Reach is Approach for a caller that waits, for as long as ctx lets it.
func (s *Server) Reach(ctx context.Context, key string) *Approach {
	a := &Approach{ready: make(chan struct{}), opened: s.open(ctx, key)}
	close(a.ready)
	return a
}

// Err waits until the server has answered, and tells if it did not.
func (a *Approach) Err() error {
	<-a.ready
	return a.opened.err
}

// Fence completes the fence, as Server.Fence does.
func (a *Approach) Fence(ctx context.Context, alive func() error) (*Session, error) {
	<-a.ready
	return a.opened.own(ctx, alive)
}

// Close gives up what was opened.
func (a *Approach) Close() error {
	<-a.ready
	if a.opened.err != nil {
		return nil // there is nothing to be closed
	}
	return a.opened.session.Close()
}
