package provisioner

import (
	"context"
	"fmt"
	"sync/atomic"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// sessionLock keeps others off an instance or a binding while a session changes it: see mysqladmin.Server.Lock.
type sessionLock struct {
	key     string
	pending *pendingLock // nil if beginLock was not called, or could not begin
	adds    bool         // the session only adds something, which is allowed during a store.Hold too
}

func instanceLock(id string) sessionLock { return sessionLock{key: fleet.InstanceLock(id)} }

func bindingLock(instanceID, id string) sessionLock {
	return sessionLock{key: fleet.BindingLock(instanceID, id)}
}

// pendingLock is a session lock that is being taken while PostgreSQL commits the task. The first worker on the task
// uses it. Methods of nil do nothing.
type pendingLock struct {
	lock  *mysqladmin.PendingLock
	taken atomic.Bool
}

// beginLock begins to take an instance's session lock, if there is an open connection to do it on.
func (p *Provisioner) beginLock(ctx context.Context, i store.Instance, lock sessionLock) sessionLock {
	if pending := p.fleet.PendingLock(ctx, i.Location, lock.key); pending != nil {
		lock.pending = &pendingLock{lock: pending}
	}
	return lock
}

// take returns the pending lock to the first caller, nil to others.
func (l *pendingLock) take() *mysqladmin.PendingLock {
	if l == nil || l.taken.Swap(true) {
		return nil
	}
	return l.lock
}

// dropLock closes a pending lock that nobody took.
func (p *Provisioner) dropLock(lock sessionLock) {
	if pending := lock.pending.take(); pending != nil {
		p.closing.Go(func() { p.logClose(pending.Close()) })
	}
}

func (p *Provisioner) logClose(err error) {
	if err != nil {
		p.log.Warn("could not release a session lock cleanly; its connection is closed", "error", err)
	}
}

// onServer runs fn in a session with the session lock, on an instance's server. An error that says that the server
// cannot be reached, or hangs, is a task.Unreachable.
func (p *Provisioner) onServer(ctx context.Context, run *task.Run, i store.Instance, lock sessionLock,
	fn func(context.Context, *mysqladmin.Session) error) error {
	return p.fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) error {
		attended, stop := admin.Attend(ctx)
		defer stop()
		err := p.underLock(attended, run, i, admin, lock, fn)
		switch {
		case err == nil || ctx.Err() != nil: // that the step took too long says nothing of the server
			return err
		case context.Cause(attended) == mysqladmin.ErrSilent:
			return task.Unreachable(fmt.Errorf("%w: %w", mysqladmin.ErrSilent, err))
		case mysqladmin.CannotReach(err) && run.Alive() == nil: // a worker that lost its lease lost its connection, too
			return task.Unreachable(err)
		}
		return err
	})
}

// notUnreachable keeps an error from counting as one of reaching the server: it came from another connection than the
// administrator's.
func notUnreachable(err error) error {
	if err == nil {
		return nil
	}
	return &otherError{err}
}

type otherError struct{ error }

func (p *Provisioner) underLock(ctx context.Context, run *task.Run, i store.Instance, admin *mysqladmin.Server,
	lock sessionLock, fn func(context.Context, *mysqladmin.Session) error) error {
	pending := lock.pending.take()
	if pending == nil {
		pending = admin.OpenLock(ctx, lock.key)
	}
	session, err := p.fleet.Lock(ctx, i.Location, pending, run.Alive, lock.adds)
	if err != nil {
		return err
	}
	run.Answered()
	err = fn(ctx, session)
	if i.Location.Dedicated() { // whose connections are closed now
		p.logClose(session.Close())
	} else { // nobody needs to wait for it
		p.closing.Go(func() { p.logClose(session.Close()) })
	}
	return err
}
