package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/dedicated"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// withAdminPassword runs fn with the password of the admin account of an instance's dedicated server. While
// RotateAdminPassword is under way, and after it died, the server may have the next one already: if it refuses the
// login, fn is run again with what is recorded by then.
func withAdminPassword(ctx context.Context, s *store.Store, i store.Instance, fn func(password string) error) error {
	err := fn(i.AdminPassword)
	if !mysqladmin.AccessDenied(err) {
		return err
	}
	recorded, reading := s.Instance(ctx, i.ID)
	if reading != nil {
		return errors.Join(err, fmt.Errorf("look for another admin password: %w", reading))
	}
	for _, password := range []string{recorded.AdminPassword, recorded.NextAdminPassword} {
		if password == "" || password == i.AdminPassword {
			continue
		}
		if err = fn(password); !mysqladmin.AccessDenied(err) {
			return err
		}
	}
	return err
}

const (
	rotationTime = 20 * time.Second // bounds how long the server may take to change the password
	idleTime     = 5 * time.Second  // bounds how long binds and unbinds are waited for, which take milliseconds
	idlePoll     = 10 * time.Millisecond
)

// RotateAdminPassword gives the admin account of an instance's dedicated server a new password. That is recorded first,
// so that one that works is recorded at any moment; a rotation that died is completed by the next one, and until then
// withAdminPassword finds which one works. Requests wait meanwhile, and tasks are not begun. An instance that is not
// ready, or on which an operation is in progress, is refused with an *Error.
func RotateAdminPassword(ctx context.Context, s *store.Store, servers *dedicated.Servers, id string) error {
	err := s.InTx(ctx, func(tx *store.Tx) error {
		i, err := lockForRotation(ctx, tx, id)
		if err != nil || i.NextAdminPassword != "" {
			return err
		}
		return tx.SetNextAdminPassword(ctx, i.ID, newPassword())
	})
	if err != nil {
		return err
	}
	return s.InTx(ctx, func(tx *store.Tx) error {
		i, err := lockForRotation(ctx, tx, id)
		if err != nil || i.NextAdminPassword == "" { // another process completed it
			return err
		}
		if err := changeAdminPassword(ctx, tx, servers, i); err != nil {
			return err
		}
		return tx.AdoptNextAdminPassword(ctx, i.ID)
	})
}

// lockForRotation keeps operations from beginning, and makes sure that none is under way with the present password. It
// waits for binds and unbinds, which end without the lock.
func lockForRotation(ctx context.Context, tx *store.Tx, id string) (store.Instance, error) {
	i, err := tx.LockInstance(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return i, refuse(NotFound, "There is no service instance with this id.")
	}
	if err != nil {
		return i, fmt.Errorf("lock the instance: %w", err)
	}
	active, err := awaitBindings(ctx, tx, id)
	switch {
	case err != nil:
		return i, fmt.Errorf("look for tasks in progress: %w", err)
	case i.DedicatedID == "":
		return i, refuse(Invalid, "This service instance is on a shared server. Change the password of the server's "+
			"admin account yourself, and in the broker's configuration.")
	case len(active) > 0:
		return i, errBusy
	case i.State != store.Ready:
		return i, errNotReady
	}
	return i, nil
}

// awaitBindings returns the tasks in progress once none is a bind or unbind, or there is no use in waiting longer.
func awaitBindings(ctx context.Context, tx *store.Tx, id string) (active []store.Task, err error) {
	deadline := time.Now().Add(idleTime)
	for {
		active, err = tx.ActiveTasks(ctx, id)
		if err != nil || len(active) == 0 || taskOf(active, "") != nil || time.Now().After(deadline) {
			return active, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(idlePoll):
		}
	}
}

// changeAdminPassword does so under the fence that operations take: should the lock in PostgreSQL be lost, whoever
// takes it next ends this connection before it changes the password in turn.
func changeAdminPassword(ctx context.Context, tx *store.Tx, servers *dedicated.Servers, i store.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, rotationTime)
	defer cancel()
	change := func(current string) error {
		return servers.ChangeAdminPassword(ctx, i.DedicatedID, current, i.NextAdminPassword, instanceFence(i.ID),
			func() error { return tx.Alive(ctx) })
	}
	err := change(i.AdminPassword)
	if mysqladmin.AccessDenied(err) { // a rotation died when the server had it already
		err = change(i.NextAdminPassword)
	}
	return err
}
