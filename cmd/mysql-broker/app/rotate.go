package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/backup"
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
		if err == nil {
			err = checkKeysOfBackups(ctx, s, vault)
		}
		return err
	})
	return passwords, backups, err
}

// CheckKeys returns an error if anything that PostgreSQL knows could not be read any more with a keyset that lacks the
// old keys.
func CheckKeys(ctx context.Context, cfg config.Config, without string) error {
	vault, err := openVault(cfg)
	if err != nil {
		return err
	}
	if cfg.Keys, err = store.ParseKeyset(without); err != nil {
		return err
	}
	return withStore(ctx, cfg, func(s *store.Store) error {
		if err := s.Keys.Check(ctx); err != nil {
			return fmt.Errorf("without the old keys, %v", err) // the keyset itself is right
		}
		return checkKeysOfBackups(ctx, s, vault)
	})
}

// checkKeysOfBackups returns an error that names the recorded backups and log archives that nobody could read without
// the old keys, if what is missing in the object store comes back from wherever it is.
func checkKeysOfBackups(ctx context.Context, s *store.Store, vault *backup.Vault) error {
	backups, err := s.Backups.Of(ctx, "")
	if err != nil {
		return fmt.Errorf("read which backups there are: %w", err)
	}
	logs, err := s.Logs.All(ctx)
	if err != nil {
		return fmt.Errorf("read which archives of binary logs there are: %w", err)
	}
	type recorded struct {
		instanceID, id string
		current        func(v backup.Vault, ctx context.Context, instanceID, id string) (bool, error)
	}
	var all []recorded
	for _, b := range backups {
		if b.State == store.BackupComplete && b.VerifyError == "" {
			all = append(all, recorded{b.InstanceID, b.ID, backup.Vault.Current})
		}
	}
	for _, l := range logs {
		all = append(all, recorded{l.InstanceID, l.ID, backup.Vault.CurrentLog})
	}
	var old []string
	for _, r := range all {
		current := false
		if vault != nil {
			if current, err = r.current(*vault, ctx, r.instanceID, r.id); err != nil {
				return err
			}
		}
		if !current {
			old = append(old, r.id)
		}
	}
	switch {
	case len(old) == 0:
		return nil
	case vault == nil:
		return fmt.Errorf("%d backups and log archives are recorded, and BACKUP_STORE is not set", len(old))
	}
	return fmt.Errorf("not in the object store, or encrypted with an old key, are these backups and log archives: %s; "+
		"put them back, and run `mysql-broker rotate-keys` again, before you drop the old keys", strings.Join(old, ", "))
}

// RotateAdminPasswords changes the passwords of the admin accounts on the instances' dedicated servers, or on all if
// ids is empty, and returns their number. It calls left for each server that it skips, with the reason.
func RotateAdminPasswords(ctx context.Context, cfg config.Config, log *slog.Logger, ids []string,
	left func(id string, err error)) (rotated int, err error) {
	if _, err := store.Migrate(ctx, cfg.PostgresURL); err != nil {
		return 0, err
	}
	err = WithServers(ctx, cfg, log, func(s *store.Store, servers *fleet.Fleet) (err error) {
		if len(ids) == 0 {
			if ids, err = s.Instances.Dedicated(ctx); err != nil {
				return err
			}
		}
		for _, id := range ids {
			named, err := s.Instances.Named(ctx, id)
			if errors.Is(err, store.ErrNotFound) {
				named, err = id, nil // which is refused
			}
			if err == nil {
				err = instances.RotateAdminPassword(ctx, s, servers, named)
			}
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
