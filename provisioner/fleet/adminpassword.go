package fleet

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// WithAdminPassword runs fn with the admin password of an instance's dedicated server. During a password change, and
// after a change that was cut off, the server may already have the next password. So if the server refuses the login,
// WithAdminPassword reads the instance again and runs fn with the passwords recorded there.
func WithAdminPassword(ctx context.Context, s *store.Store, i store.Instance, fn func(password string) error) error {
	err := fn(i.AdminPassword)
	if !mysqladmin.AccessDenied(err) {
		return err
	}
	recorded, reading := s.Instances.Get(ctx, i.ID)
	if reading != nil {
		return errors.Join(err, fmt.Errorf("find another admin password: %w", reading))
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

// ChangeAdminPassword changes the password of the broker's account on a dedicated server and checks that the next one
// works. The launcher then stores it. lock is the key of the session lock to hold during the change; see
// mysqladmin.Server.Lock for alive.
func (f *Fleet) ChangeAdminPassword(ctx context.Context, at store.Location, current, next, lock string,
	alive func() error) error {
	return f.dedicated(ctx, at, "change the admin password of", func(l launcher.Launcher) error {
		return l.ChangeAdminPassword(ctx, at.Server, next, func(ctx context.Context) error {
			// This connection is closed before the next one is opened: a server at its limit accepts only one more login.
			if err := f.changeAdminPassword(ctx, at, current, next, lock, alive); err != nil {
				return err
			}
			endpoint, err := f.launcherEndpoint(ctx, at)
			if err != nil {
				return err
			}
			return mysqladmin.CheckLogin(ctx, f.adminLogin(at.Server, endpoint, next), "")
		})
	})
}

func (f *Fleet) changeAdminPassword(ctx context.Context, at store.Location, current, next, lock string,
	alive func() error) error {
	admin, err := f.Open(ctx, at, current)
	if err != nil {
		return err
	}
	defer admin.Close()
	session, err := admin.Lock(ctx, lock, alive)
	if err != nil {
		return fmt.Errorf("take the session lock: %w", err)
	}
	err = session.Accounts.ChangePassword(ctx, adminUser, next)
	return errors.Join(err, session.Close())
}
