package app

import (
	"context"
	"log/slog"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/recovery"
	"mysql-broker/store"
)

// WithDoctor runs fn with a doctor for the broker of cfg and c. The broker need not run.
func WithDoctor(ctx context.Context, cfg config.Config, c *catalog.Catalog, log *slog.Logger,
	fn func(*doctor.Doctor) error) error {
	hub, err := cfg.CredHub.Open()
	if err != nil {
		return err
	}
	objects, err := cfg.Backups.Open()
	if err != nil {
		return err
	}
	return withServers(ctx, cfg, log, func(s *store.Store, f *fleet.Fleet) error {
		return fn(doctor.New(doctor.Config{Store: s, Plans: c.Plans(), Fleet: f, CredHub: hub, Objects: objects}))
	})
}

// WithRecovery runs fn with the configuration of a recovery, for the broker of cfg.
func WithRecovery(ctx context.Context, cfg config.Config, log *slog.Logger, fn func(recovery.Config) error) error {
	return withServers(ctx, cfg, log, func(s *store.Store, f *fleet.Fleet) error {
		return fn(recovery.Config{Store: s, Fleet: f})
	})
}
