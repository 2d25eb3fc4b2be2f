package provisioner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// fence is what keeps others off an instance or a binding while a session changes it: see mysqladmin.Server.Fence.
type fence struct {
	key   string
	ahead *ahead // nil where nobody approaches it yet
	adds  bool   // what is done under it only adds, which is done during a store.Hold too
}

func instanceFence(id string) fence { return fence{key: fmt.Sprintf("instance %q", id)} }

func bindingFence(instanceID, id string) fence { return fence{key: BindingFence(instanceID, id)} }

// BindingFence is the key for mysqladmin.Server.Fence of whoever changes the account of a binding.
func BindingFence(instanceID, id string) string { return fmt.Sprintf("binding %q %q", instanceID, id) }

// ahead is an approach to a fence that is made while PostgreSQL writes the intent to its disk. Whoever works on the
// task first takes it over. Methods of nil do nothing.
type ahead struct {
	approach *mysqladmin.Approach
	taken    atomic.Bool
}

// approach begins to open an instance's fence, if that is on a shared server: dedicated ones have no connections open.
func (p *Provisioner) approach(ctx context.Context, i store.Instance, f fence) fence {
	if server, err := p.shared.Server(i.Server); i.Server != "" && err == nil {
		f.ahead = &ahead{approach: server.Approach(ctx, f.key)}
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

// onServer runs fn on a fenced connection to an instance's server.
func (p *Provisioner) onServer(ctx context.Context, i store.Instance, f fence, alive func() error,
	fn func(*mysqladmin.Session) error) error {
	if err := Verified(ctx, p.shared, i); err != nil && !(f.adds && errors.Is(err, store.ErrHeld)) {
		return fmt.Errorf("compare PostgreSQL with the server: %w", err)
	}
	return p.asAdmin(ctx, i, func(admin *mysqladmin.Server) error {
		var session *mysqladmin.Session
		var err error
		if a := f.ahead.take(); a != nil {
			session, err = a.Fence(ctx, alive)
		} else {
			session, err = admin.Fence(ctx, f.key, alive)
		}
		if err != nil {
			return fmt.Errorf("take the fence on the server: %w", err)
		}
		err = fn(session)
		if i.DedicatedID != "" { // whose connections are closed now
			p.logClose(session.Close())
		} else { // nobody needs to wait for it
			p.closing.Go(func() { p.logClose(session.Close()) })
		}
		return err
	})
}
