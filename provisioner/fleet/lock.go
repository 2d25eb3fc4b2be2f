package fleet

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// InstanceLock returns the key of the session lock for changes to an instance: see mysqladmin.Server.Lock.
func InstanceLock(id string) string { return fmt.Sprintf("instance %q", id) }

// BindingLock returns the key of the session lock for changes to a binding's account.
func BindingLock(instanceID, id string) string { return fmt.Sprintf("binding %q %q", instanceID, id) }

// AccountOf is the account that a binding has on the server of its instance, with what a plan allows it.
func AccountOf(i store.Instance, b store.Binding, of plan.Plan) mysqladmin.Account {
	return mysqladmin.Account{Name: b.Account, Password: b.Password, Database: i.Database, Role: plan.Role(b.Role),
		MaxConnections: of.MaxConnections, Events: of.Events, RequireTLS: plan.TLS(b.TLS) == plan.TLSRequired,
		Restricted: i.OverSince != nil, OwnServer: i.Location.Dedicated()}
}

// Verified returns store.ErrHeld if a location's server knows more than PostgreSQL, and another error if this cannot be
// found out; see shared.Server.Verified. In either case nothing may be changed or removed there. from reads a
// shared server's mark; that of a dedicated server is at its launcher.
func (f *Fleet) Verified(ctx context.Context, at store.Location, from mysqladmin.MarkReader) error {
	if at.Dedicated() {
		l, err := f.Launcher(at.Launcher)
		if err != nil {
			return err
		}
		return f.verifyLauncher(ctx, l)
	}
	server, err := f.Shared.Server(at.Server)
	if err != nil {
		return err
	}
	return server.Verified(ctx, from)
}
