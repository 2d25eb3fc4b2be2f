// Package steps has what the steps of all operations do with MySQL servers: choose one, launch one, work there in a
// session under a lock, and undo what nobody uses yet.
package steps

import (
	"context"
	"errors"
	"sync"
	"time"

	"mysql-broker/provisioner/clock"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

const (
	// DropTimeout bounds an attempt to drop a database: with many tables, on a slow disk, it takes minutes.
	DropTimeout = time.Hour
	// AccountsTimeout bounds an attempt that changes all accounts of an instance.
	AccountsTimeout = 10 * time.Minute
)

// Servers works on the servers of a fleet. Make one with New.
type Servers struct {
	*engine.Engine
	Fleet *fleet.Fleet

	quotasOff bool // storage is not measured, so the recorded usage is out of date
	onFull    func()
	loads     loads
	closing   sync.WaitGroup // sessions being closed in the background
}

// New returns the servers of a fleet. onFull is called when an instance is refused because every shared server is full;
// quotasOff says that storage is not measured.
func New(e *engine.Engine, f *fleet.Fleet, onFull func(), quotasOff bool) *Servers {
	return &Servers{Engine: e, Fleet: f, onFull: onFull, quotasOff: quotasOff}
}

// Stop hands over all tasks and waits until nothing runs in this process any more. Requests should have ended before.
func (ss *Servers) Stop() {
	ss.Tasks.Stop()
	ss.closing.Wait()
}

// UnlessDeleted returns err, or an *Error for users if a dedicated server was not found because its instance is being
// deleted, or was deleted after it was read.
func (ss *Servers) UnlessDeleted(ctx context.Context, instanceID string, err error) error {
	if !errors.Is(err, launcher.ErrNotFound) {
		return err
	}
	latest, taskErr := ss.Store.Tasks.Latest(ctx, instanceID, "", "")
	if taskErr == nil && latest.Kind == store.Deprovision && latest.State == store.InProgress {
		return engine.ErrBusy
	}
	if _, readErr := ss.Store.Instances.Get(ctx, instanceID); errors.Is(readErr, store.ErrNotFound) {
		return engine.Refuse(engine.NotFound, "There is no service instance with this id.")
	}
	return err
}

// SureOfAges returns an error if something is due for its age and clocks disagree about how old it is.
func (ss *Servers) SureOfAges(ctx context.Context, due int) error {
	if due == 0 {
		return nil
	}
	return clock.Compare(ctx, ss.Store, ss.Fleet.Shared)
}

// RoleOf is the role of an account. One whose role is not known gets that of an administrator of its database, without
// which what it has defined may fail.
func RoleOf(a store.BindingAccount) plan.Role {
	if a.Role == "" {
		return plan.Admin
	}
	return plan.Role(a.Role)
}

// DatabaseSize measures an instance on its server.
func (ss *Servers) DatabaseSize(ctx context.Context, i store.Instance) (size mysqladmin.Size, err error) {
	err = ss.Fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) (err error) {
		size, err = admin.Sizes.Of(ctx, i.Database)
		return err
	})
	return size, err
}
