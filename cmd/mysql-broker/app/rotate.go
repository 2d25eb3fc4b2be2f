package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/dedicated"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/store"
)

// RotateKeys encrypts stored passwords anew, and says how many: see store.Store.RotateKeys.
func RotateKeys(ctx context.Context, cfg config.Config) (rotated int, err error) {
	s, err := openStored(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	return s.RotateKeys(ctx)
}

// RotateAdminPasswords gives the admin accounts of the instances' dedicated servers new passwords, or those of all if
// ids is empty, and says how many. left is told of each that keeps its own and why.
func RotateAdminPasswords(ctx context.Context, cfg config.Config, log *slog.Logger, ids []string,
	left func(id string, err error)) (rotated int, err error) {
	s, err := openStored(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if err := s.CheckKeys(ctx); err != nil {
		return 0, err
	}
	fenceKey, err := s.FenceKey(ctx)
	if err != nil {
		return 0, err
	}
	l, err := process.Open(launcherConfig(cfg.Launcher, log))
	if err != nil {
		return 0, fmt.Errorf("launcher: %w", err)
	}
	defer l.Close()
	servers := dedicated.New(l, fenceKey)
	if len(ids) == 0 {
		if ids, err = s.DedicatedInstances(ctx); err != nil {
			return 0, err
		}
	}
	for _, id := range ids {
		err := provisioner.RotateAdminPassword(ctx, s, servers, id)
		if ctx.Err() != nil {
			return rotated, errors.Join(err, context.Cause(ctx))
		}
		if err != nil {
			left(id, err)
			continue
		}
		rotated++
	}
	return rotated, nil
}

func openStored(ctx context.Context, cfg config.Config) (*store.Store, error) {
	if _, err := store.Migrate(ctx, cfg.PostgresURL); err != nil {
		return nil, err
	}
	return store.Open(ctx, cfg.PostgresURL, cfg.Keys)
}
