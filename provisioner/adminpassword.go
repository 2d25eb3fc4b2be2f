package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

const (
	// patience bounds how long a rotation tries to find the instance without a bind or unbind under way.
	patience = 5 * time.Second
	// endTime and changeTime together bound how long a rotation keeps requests waiting. It is less than they wait for a
	// lock: see store.Store.InTx.
	endTime    = time.Second     // for the end of binds and unbinds that are under way, which take milliseconds
	changeTime = 2 * time.Second // for the server to change the password
	endPoll    = 10 * time.Millisecond
)

// RotateAdminPassword gives the admin account of an instance's dedicated server a new password. That is recorded first,
// so that one that works is recorded at any moment; a rotation that died is completed by the next one, and until then
// fleet.WithAdminPassword finds which one works. Requests wait meanwhile, at most 3 seconds on end, and tasks are not
// begun. An instance that is not ready, or on which an operation is in progress, is refused with an *Error.
func RotateAdminPassword(ctx context.Context, s *store.Store, servers *fleet.Fleet, id string) error {
	hold, err := s.Hold(ctx)
	if err != nil {
		return fmt.Errorf("read whether PostgreSQL is held: %w", err)
	}
	if hold != nil {
		return store.ErrHeld
	}
	err = whenIdle(ctx, s, id, func(tx *store.Tx, i store.Instance) error {
		if i.NextAdminPassword != "" {
			return nil
		}
		return tx.SetNextAdminPassword(i.ID, newPassword())
	})
	if err != nil {
		return err
	}
	return whenIdle(ctx, s, id, func(tx *store.Tx, i store.Instance) error {
		if i.NextAdminPassword == "" { // another process completed it
			return nil
		}
		if err := changeAdminPassword(ctx, tx, servers, i); err != nil {
			return err
		}
		tx.AdoptNextAdminPassword(i.ID)
		return nil
	})
}

// errBinding means that binds or unbinds were under way for longer than endTime.
var errBinding = fmt.Errorf("binds and unbinds do not end: %w", errBusy)

// whenIdle runs fn in a transaction that keeps operations from beginning, once none is under way with the present
// password. Binds and unbinds end without the lock, but where they come all the time, there is no moment without one
// unless it is held for a while. If they do not end soon, requests get their turn before it is tried again.
func whenIdle(ctx context.Context, s *store.Store, id string, fn func(*store.Tx, store.Instance) error) error {
	deadline := time.Now().Add(patience)
	for {
		err := s.InTx(ctx, func(tx *store.Tx) error {
			i, err := lockForRotation(ctx, tx, id)
			if err != nil {
				return err
			}
			return fn(tx, i)
		})
		if !errors.Is(err, errBinding) || time.Now().After(deadline) {
			return err
		}
	}
}

// lockForRotation refuses an instance that cannot be given another password now.
func lockForRotation(ctx context.Context, tx *store.Tx, id string) (store.Instance, error) {
	i, err := tx.LockInstance(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return i, refuse(NotFound, "There is no service instance with this id.")
	}
	if err != nil {
		return i, fmt.Errorf("lock the instance: %w", err)
	}
	if i.Location.Shared() {
		return i, refuse(Invalid, "This service instance is on a shared server. Change the password of the server's "+
			"admin account yourself, and in the broker's configuration.")
	}
	if err := awaitBindings(ctx, tx, id); err != nil {
		return i, err
	}
	if i.State != store.Ready {
		return i, errNotReady
	}
	return i, nil
}

// awaitBindings returns nil once no task is in progress, errBinding if binds or unbinds do not end soon, or errBusy.
func awaitBindings(ctx context.Context, tx *store.Tx, id string) error {
	deadline := time.Now().Add(endTime)
	for {
		active, err := tx.ActiveTasks(ctx, id)
		switch {
		case err != nil:
			return fmt.Errorf("look for tasks in progress: %w", err)
		case len(active) == 0:
			return nil
		case slices.ContainsFunc(active, func(t store.Task) bool { return t.BindingID == "" }):
			return errBusy
		case time.Now().After(deadline):
			return errBinding
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(endPoll):
		}
	}
}

// changeAdminPassword does so under the session lock that operations take: should the lock in PostgreSQL be lost,
// whoever takes it next ends this connection before it changes the password in turn.
func changeAdminPassword(ctx context.Context, tx *store.Tx, servers *fleet.Fleet, i store.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	change := func(current string) error {
		return servers.ChangeAdminPassword(ctx, i.Location, current, i.NextAdminPassword, fleet.InstanceLock(i.ID),
			func() error { return tx.Alive(ctx) })
	}
	err := change(i.AdminPassword)
	if mysqladmin.AccessDenied(err) { // a rotation died when the server had it already
		err = change(i.NextAdminPassword)
	}
	return err
}
