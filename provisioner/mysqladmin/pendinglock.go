package mysqladmin

import (
	"context"
	"time"
)

// pendingLockTimeout bounds how long a server that does not answer can keep a PendingLock waiting.
const pendingLockTimeout = 2 * time.Second

// PendingLock is a session lock that is being taken while its caller may not have its lease yet. It kills nobody and
// changes nothing, so that it does no harm if the caller does not get the lease. Call either Lock or Close, once.
type PendingLock struct {
	opened opened
	ready  chan struct{}
}

// BeginLock starts to open the session of Lock, in the background.
func (s *Server) BeginLock(ctx context.Context, key string) *PendingLock {
	p := &PendingLock{ready: make(chan struct{})}
	go func() {
		defer close(p.ready)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pendingLockTimeout)
		defer cancel()
		p.opened = s.open(ctx, key)
	}()
	return p
}

// OpenLock is BeginLock in the foreground, for as long as ctx allows.
func (s *Server) OpenLock(ctx context.Context, key string) *PendingLock {
	p := &PendingLock{ready: make(chan struct{}), opened: s.open(ctx, key)}
	close(p.ready)
	return p
}

// Err waits until the session is open, and returns the error if that failed.
func (p *PendingLock) Err() error {
	<-p.ready
	return p.opened.err
}

// Lock waits for the lock, and kills another connection that holds it, as Server.Lock does.
func (p *PendingLock) Lock(ctx context.Context, alive func() error) (*Session, error) {
	<-p.ready
	return p.opened.own(ctx, alive)
}

// Close releases what was opened.
func (p *PendingLock) Close() error {
	<-p.ready
	if p.opened.err != nil {
		return nil // there is nothing to close
	}
	return p.opened.session.Close()
}
