package provisioner

import (
	"context"
	"errors"
	"sync/atomic"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// sessionLock is a lock on a MySQL server. While a session holds it, no other session of a broker changes the instance
// or binding: see mysqladmin.Server.Lock.
type sessionLock struct {
	key     string
	pending *pendingLock // nil unless the lock is being taken already
	adds    bool         // the work under it only adds, which is allowed even during a store.Hold
}

func instanceLock(id string) sessionLock { return sessionLock{key: fleet.InstanceLock(id)} }

func bindingLock(instanceID, id string) sessionLock {
	return sessionLock{key: fleet.BindingLock(instanceID, id)}
}

// pendingLock is a session lock that is being taken while PostgreSQL writes the intent to its disk. The first worker on
// the task completes it.
type pendingLock struct {
	lock  *mysqladmin.PendingLock
	taken atomic.Bool
}

// beginLock starts to take a session lock, if there is an open connection for it.
func (p *Provisioner) beginLock(ctx context.Context, i store.Instance, l sessionLock) sessionLock {
	if pending := p.fleet.PendingLock(ctx, i.Location, l.key); pending != nil {
		l.pending = &pendingLock{lock: pending}
	}
	return l
}

// take returns the pending lock to the first caller. It returns nil to others, or if there is no pending lock.
func (l sessionLock) take() *mysqladmin.PendingLock {
	if l.pending == nil || l.pending.taken.Swap(true) {
		return nil
	}
	return l.pending.lock
}

// dropLock closes a pending lock that nobody took.
func (p *Provisioner) dropLock(l sessionLock) {
	if pending := l.take(); pending != nil {
		p.closing.Go(func() { p.logClose(pending.Close()) })
	}
}

func (p *Provisioner) logClose(err error) {
	if err != nil {
		p.log.Warn("could not release a session lock cleanly; its connection is closed", "error", err)
	}
}

// inSession returns the Do function of a step that runs fn in a session with a session lock on the instance's server.
// If the server cannot be reached, or hangs, the error is a task.Unreachable.
func (p *Provisioner) inSession(i store.Instance, l sessionLock,
	fn func(context.Context, *task.Run, *mysqladmin.Session) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) error {
		session, err := p.fleet.OpenSession(ctx, i,
			fleet.Lock{Key: l.key, Pending: l.take(), Alive: run.Alive, Adds: l.adds})
		if err == nil {
			run.Answered()
			err = session.Explain(fn(session.Context(), run, session.Session))
			p.closeSession(i, session)
		}
		switch {
		case err == nil || ctx.Err() != nil: // a timeout of the step says nothing about the server
			return err
		case errors.Is(err, mysqladmin.ErrSilent):
			return task.Unreachable(err)
		case mysqladmin.CannotReach(err) && run.Alive() == nil: // a worker that lost its lease lost its connection, too
			return task.Unreachable(err)
		}
		return err
	}
}

// closeSession does not wait for a shared server to release the lock. The connections to a dedicated one are closed
// before the next step opens new ones.
func (p *Provisioner) closeSession(i store.Instance, session *fleet.Session) {
	if i.Location.Dedicated() {
		p.logClose(session.Close())
		return
	}
	p.closing.Go(func() { p.logClose(session.Close()) })
}

// notUnreachable keeps inSession from taking an error for task.Unreachable: it is the error of a connection other than
// the session's.
func notUnreachable(err error) error {
	if err == nil {
		return nil
	}
	return &otherError{err}
}

type otherError struct{ error }
