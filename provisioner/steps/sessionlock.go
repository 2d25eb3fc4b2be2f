package steps

import (
	"context"
	"errors"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// InstanceLock is the session lock for changes to an instance.
func InstanceLock(id string) fleet.Lock { return fleet.Lock{Key: fleet.InstanceLock(id)} }

// BindingLock is the session lock for changes to the account of a binding.
func BindingLock(instanceID, id string) fleet.Lock {
	return fleet.Lock{Key: fleet.BindingLock(instanceID, id)}
}

// InSession returns the Do function of a step that runs fn in a session with a session lock on the instance's server.
// If the server cannot be reached, or hangs, the error is a task.Unreachable.
func (ss *Servers) InSession(i store.Instance, lock fleet.Lock,
	fn func(context.Context, *task.Run, *mysqladmin.Session) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) error {
		session, err := ss.Fleet.OpenSession(ctx, i, fleet.Lock{Key: lock.Key, Alive: run.Alive, Adds: lock.Adds})
		if err == nil {
			run.Answered()
			err = session.Explain(fn(session.Context(), run, session.Session))
			ss.CloseSession(i, session)
		}
		switch {
		case errors.Is(err, mysqladmin.ErrNoRoom) && lock.Adds:
			return engine.Fail(run.Task, engine.ServerFull, err)
		case errors.Is(err, mysqladmin.ErrNoRoom):
			return engine.Fail(run.Task, engine.AccountsFull, err)
		case err == nil || ctx.Err() != nil: // a timeout of the step says nothing about the server
			return err
		case errors.Is(err, mysqladmin.ErrSilent),
			mysqladmin.CannotReach(err) && run.Alive() == nil: // a worker that lost its lease lost its connection, too
			return engine.Fail(run.Task, engine.ServerSilent, err)
		}
		return err
	}
}

// CloseSession does not wait for a shared server to release the lock. The connections to a dedicated one are closed
// before the next step opens new ones.
func (ss *Servers) CloseSession(i store.Instance, session *fleet.Session) {
	if i.Location.Dedicated() {
		ss.logClose(session.Close())
		return
	}
	ss.closing.Go(func() { ss.logClose(session.Close()) })
}

func (ss *Servers) logClose(err error) {
	if err != nil {
		ss.Log.Warn("could not release a session lock cleanly; its connection is closed", "error", err)
	}
}
