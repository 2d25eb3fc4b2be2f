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

// fence is what keeps others off an instance or a binding while a session changes it: see mysqladmin.Server.Fence.
type fence struct {
	key   string
	ahead *ahead // nil where nobody approaches it yet
	adds  bool   // what is done under it only adds, which is done during a store.Hold too
}

func instanceFence(id string) fence { return fence{key: fleet.InstanceLock(id)} }

func bindingFence(instanceID, id string) fence { return fence{key: fleet.BindingLock(instanceID, id)} }

// ahead is an approach to a fence that is made while PostgreSQL writes the intent to its disk. Whoever works on the
// task first takes it over. Methods of nil do nothing.
type ahead struct {
	approach *mysqladmin.Approach
	taken    atomic.Bool
}

// approach begins to open an instance's fence, if there is an open connection to do it on.
func (p *Provisioner) approach(ctx context.Context, i store.Instance, f fence) fence {
	if pending := p.fleet.PendingLock(ctx, i.Location, f.key); pending != nil {
		f.ahead = &ahead{approach: pending}
	}
	return f
}

// take returns the approach to the first who asks, nil to others.
func (a *ahead) take() *mysqladmin.Approach {
	if a == nil || a.taken.Swap(true) {
		return nil
	}
	return a.approach
}

// drop gives up an approach that nobody took.
func (p *Provisioner) drop(f fence) {
	if a := f.ahead.take(); a != nil {
		p.closing.Go(func() { p.logClose(a.Close()) })
	}
}

func (p *Provisioner) logClose(err error) {
	if err != nil {
		p.log.Warn("could not give a fence back cleanly; its connection is closed", "error", err)
	}
}

// onServer runs fn on a fenced connection to an instance's server. An error that says that the server cannot be
// reached, or hangs, is a task.Unreachable.
func (p *Provisioner) onServer(ctx context.Context, run *task.Run, i store.Instance, f fence,
	fn func(context.Context, *mysqladmin.Session) error) error {
	return p.fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) error {
		attended, stop := admin.Attend(ctx)
		defer stop()
		err := p.fenced(attended, run, i, admin, f, fn)
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

func (p *Provisioner) fenced(ctx context.Context, run *task.Run, i store.Instance, admin *mysqladmin.Server, f fence,
	fn func(context.Context, *mysqladmin.Session) error) error {
	a := f.ahead.take()
	if a == nil {
		a = admin.Reach(ctx, f.key)
	}
	session, err := p.fleet.Lock(ctx, i.Location, a, run.Alive, f.adds)
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
