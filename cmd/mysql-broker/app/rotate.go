package app

import (
	"context"
	"errors"
	"log/slog"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/instances"
	"mysql-broker/store"
)

// RotateKeys encrypts stored passwords and the keys of backups again, and returns the numbers of both: see
// store.Store.RotateKeys and backup.Vault.Rewrap.
func RotateKeys(ctx context.Context, cfg config.Config) (passwords, backups int, err error) {
	err = withStore(ctx, cfg, func(s *store.Store) error {
		if err := s.Audit.Record(ctx, "rotate-keys", "", "", ""); err != nil {
			return err
		}
		if passwords, err = s.Keys.Rotate(ctx); err != nil {
			return err
		}
		vault, err := openVault(cfg)
		if err == nil && vault != nil {
			backups, err = vault.Rewrap(ctx)
		}
		return err
	})
	return passwords, backups, err
}

// RotateAdminPasswords changes the passwords of the admin accounts on the instances' dedicated servers, or on all if
// ids is empty, and returns their number. It calls left for each server that it skips, with the reason.
func RotateAdminPasswords(ctx context.Context, cfg config.Config, log *slog.Logger, ids []string,
	left func(id string, err error)) (rotated int, err error) {
	if _, err := store.Migrate(ctx, cfg.PostgresURL); err != nil {
		return 0, err
	}
	err = withServers(ctx, cfg, log, func(s *store.Store, servers *fleet.Fleet) (err error) {
		if len(ids) == 0 {
			if ids, err = s.Instances.Dedicated(ctx); err != nil {
				return err
			}
		}
		for _, id := range ids {
			err := instances.RotateAdminPassword(ctx, s, servers, id)
			if ctx.Err() != nil {
				return errors.Join(err, context.Cause(ctx))
			}
			if err != nil {
				left(id, err)
				continue
			}
			rotated++
		}
		return nil
	})
	return rotated, err
}
