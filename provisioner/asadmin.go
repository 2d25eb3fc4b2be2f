package provisioner

import (
	"context"

	"mysql-broker/provisioner/dedicated"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// AsAdmin runs fn with the broker's connections to an instance's server; twice, if WithAdminPassword has to. Those to a
// dedicated server are closed when fn has returned; without a launcher, own is nil, and dedicated.ErrNoLauncher is
// returned instead.
func AsAdmin(ctx context.Context, s *store.Store, on *shared.Servers, own *dedicated.Servers, i store.Instance,
	fn func(*mysqladmin.Server) error) error {
	if i.Server != "" {
		server, err := on.Server(i.Server)
		if err != nil {
			return err
		}
		return fn(server.Server)
	}
	if own == nil {
		return dedicated.ErrNoLauncher
	}
	return WithAdminPassword(ctx, s, i, func(password string) error {
		admin, err := own.Open(ctx, i.DedicatedID, password)
		if err != nil {
			return err
		}
		defer admin.Close()
		return fn(admin)
	})
}

// Verified returns store.ErrHeld if the shared server that an instance is on knows more than PostgreSQL, and another
// error if that cannot be found out: see shared.Server.Verified. Nothing may be changed or removed there then. from
// reads the server's mark.
func Verified(ctx context.Context, on *shared.Servers, i store.Instance, from mysqladmin.MarkReader) error {
	if i.Server == "" { // the launcher's directory was compared at the start
		return nil
	}
	server, err := on.Server(i.Server)
	if err != nil {
		return err
	}
	return server.Verified(ctx, from)
}
