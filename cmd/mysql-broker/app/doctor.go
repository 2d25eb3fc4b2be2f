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
	"mysql-broker/provisioner/recovery"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// WithDoctor runs fn with a doctor for the broker that cfg and c describe, which need not run. It begins no other work:
// no task is carried out, and no server started.
func WithDoctor(ctx context.Context, cfg config.Config, c *catalog.Catalog, log *slog.Logger,
	fn func(*doctor.Doctor) error) error {
	return withServers(ctx, cfg, log, func(s *store.Store, on *shared.Servers, own *dedicated.Servers) error {
		return fn(doctor.New(doctor.Config{Store: s, Plans: c.Plans(), Shared: on, Dedicated: own}))
	})
}

// WithRecovery runs fn with what a recovery works with, for the broker that cfg describes, and begins no other work.
func WithRecovery(ctx context.Context, cfg config.Config, log *slog.Logger, fn func(recovery.Config) error) error {
	return withServers(ctx, cfg, log, func(s *store.Store, on *shared.Servers, own *dedicated.Servers) error {
		return fn(recovery.Config{Store: s, Shared: on, Dedicated: own})
	})
}

// withServers runs fn with the store and the servers that cfg describes; own is nil without a launcher.
func withServers(ctx context.Context, cfg config.Config, log *slog.Logger,
	fn func(s *store.Store, on *shared.Servers, own *dedicated.Servers) error) error {
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
	var own *dedicated.Servers
	if cfg.Launcher.Kind != "" {
		l, err := process.Open(launcherConfig(cfg.Launcher, log))
		if err != nil {
			return fmt.Errorf("launcher: %w", err)
		}
		defer l.Close()
		own = dedicated.New(l, fenceKey)
	}
	return fn(s, servers, own)
}
