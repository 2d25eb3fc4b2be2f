package app

import (
	"context"
	"fmt"
	"log/slog"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/dedicated"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// WithDoctor runs fn with a doctor for the broker that cfg and c describe, which need not run. It begins no other work:
// no task is carried out, and no server started.
func WithDoctor(ctx context.Context, cfg config.Config, c *catalog.Catalog, log *slog.Logger,
	fn func(*doctor.Doctor) error) error {
	s, err := store.Open(ctx, cfg.PostgresURL, cfg.Keys)
	if err != nil {
		return err
	}
	defer s.Close()
	fenceKey, err := s.FenceKey(ctx)
	if err != nil {
		return err
	}
	if err := s.CheckKeys(ctx); err != nil {
		return err
	}
	servers, err := shared.Open(cfg.Shared, fenceKey)
	if err != nil {
		return err
	}
	defer servers.Close()
	d := doctor.Config{Store: s, Plans: c.Plans(), Shared: servers}
	if cfg.Launcher.Kind != "" {
		l, err := process.Open(launcherConfig(cfg.Launcher, log))
		if err != nil {
			return fmt.Errorf("launcher: %w", err)
		}
		defer l.Close()
		d.Dedicated = dedicated.New(l, fenceKey)
	}
	return fn(doctor.New(d))
}
