package fleet

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// InstanceLock is the key of the session lock of whoever changes an instance: see mysqladmin.Server.Lock.
func InstanceLock(id string) string { return fmt.Sprintf("instance %q", id) }

// BindingLock is the key of the session lock of whoever changes the account of a binding.
func BindingLock(instanceID, id string) string { return fmt.Sprintf("binding %q %q", instanceID, id) }

// PendingLock begins to take a session lock at a location, while the caller does something else. It is nil where there
// is no open connection to do that on: to dedicated servers, and to what is not configured.
func (f *Fleet) PendingLock(ctx context.Context, at store.Location, key string) *mysqladmin.PendingLock {
	if !at.Shared() {
		return nil
	}
	server, err := f.Shared.Server(at.Server)
	if err != nil {
		return nil
	}
	return server.BeginLock(ctx, key)
}

// Verified returns store.ErrHeld if a location's server knows more than PostgreSQL, and another error if that cannot be
// found out: see shared.Server.Verified. Nothing may be changed or removed there then. from reads the server's mark.
func (f *Fleet) Verified(ctx context.Context, at store.Location, from mysqladmin.MarkReader) error {
	if at.Dedicated() { // what its launcher was told was compared at the start
		return nil
	}
	server, err := f.Shared.Server(at.Server)
	if err != nil {
		return err
	}
	return server.Verified(ctx, from)
}
