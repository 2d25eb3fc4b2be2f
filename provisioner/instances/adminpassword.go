package instances

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

const (
	// patience bounds how long a rotation tries to find a moment in which no bind or unbind is in progress.
	patience = 5 * time.Second
	// endTime and changeTime together bound how long a rotation keeps requests waiting. The sum is less than their timeout
	// for a lock: see store.Store.InTx.
	endTime    = time.Second     // for binds and unbinds in progress to end, which takes milliseconds
	changeTime = 2 * time.Second // for the server to change the password
	endPoll    = 10 * time.Millisecond
)

// RotateAdminPassword gives the admin account of an instance's dedicated server a new password. The new password is
// recorded beside the old one before the server is changed, so that a working password is always recorded. If a
// rotation dies, the next one completes it; until then, fleet.WithAdminPassword finds the password that works. During a
// rotation, no task begins and requests wait, at most 3 seconds at a time. If the instance is not ready, or an
// operation is in progress on it, RotateAdminPassword returns an *Error.
func RotateAdminPassword(ctx context.Context, s *store.Store, servers *fleet.Fleet, id string) error {
	if err := s.Recovery.Held(ctx); err != nil {
		return err
	}
	err := whenIdle(ctx, s, id, func(tx *store.Tx, i store.Instance) error {
		tx.Audit("rotate-admin-password", i.ID, "", "")
		if i.NextAdminPassword != "" {
			return nil
		}
		return tx.SetNextAdminPassword(i.ID, engine.NewPassword())
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

// errBinding means that binds or unbinds were in progress for longer than endTime.
var errBinding = fmt.Errorf("binds and unbinds do not end: %w", engine.ErrBusy)

// whenIdle runs fn in a transaction that holds the lock of the instance, when no operation is in progress. The lock
// keeps new operations from beginning. Binds and unbinds in progress do not need it to end. Without it, an instance
// with many binds and unbinds might never be idle. If they do not end soon, the lock is released for a moment, so that
// requests are served, and whenIdle tries again.
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

// lockForRotation locks an instance. It returns an error if its password cannot be changed now.
func lockForRotation(ctx context.Context, tx *store.Tx, id string) (store.Instance, error) {
	i, err := tx.LockInstance(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return i, engine.Refuse(engine.NotFound, "There is no service instance with this id.")
	}
	if err != nil {
		return i, fmt.Errorf("lock the instance: %w", err)
	}
	if i.Location.Shared() {
		return i, engine.Refuse(engine.Invalid,
			"This service instance is on a shared server. Change the password of the server's "+
				"admin account yourself, and in the broker's configuration.")
	}
	if err := awaitBindings(ctx, tx, id); err != nil {
		return i, err
	}
	if i.State != store.Ready {
		return i, engine.ErrNotReady
	}
	return i, nil
}

// awaitBindings waits until no task is in progress. It returns errBinding if binds or unbinds do not end soon, and
// engine.ErrBusy if another operation is in progress.
func awaitBindings(ctx context.Context, tx *store.Tx, id string) error {
	deadline := time.Now().Add(endTime)
	for {
		active, err := tx.ActiveTasks(ctx, id)
		switch {
		case err != nil:
			return fmt.Errorf("list the tasks in progress: %w", err)
		case len(active) == 0:
			return nil
		case slices.ContainsFunc(active, func(t store.Task) bool { return t.BindingID == "" }):
			return engine.ErrBusy
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

// changeAdminPassword changes the password under the session lock that operations take: if the lock in PostgreSQL is
// lost, the next operation ends this connection before it changes anything.
func changeAdminPassword(ctx context.Context, tx *store.Tx, servers *fleet.Fleet, i store.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	change := func(current string) error {
		return servers.ChangeAdminPassword(ctx, i.Location, current, i.NextAdminPassword, fleet.InstanceLock(i.ID),
			func() error { return tx.Alive(ctx) })
	}
	err := change(i.AdminPassword)
	if mysqladmin.AccessDenied(err) { // an earlier rotation died after it had changed the server's password
		err = change(i.NextAdminPassword)
	}
	return err
}
