package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

func (a *App) openShared(ctx context.Context) (end ending, err error) {
	if len(a.cfg.Shared) == 0 {
		a.catalog = a.catalog.Without(plan.Shared)
		a.log.Warn("shared plans are not offered: no shared server is configured")
	}
	if a.shared, err = shared.Open(a.cfg.Shared, a.lockKey); err != nil {
		return end, err
	}
	ctx, cancel := context.WithCancel(ctx) // #nosec G118 -- leave calls it
	a.shared.Watch(ctx, a.log)
	return ending{leave: cancel, stop: func() {
		if err := a.shared.Close(); err != nil {
			a.log.Warn("could not close the connections to the shared servers", "error", err)
		}
	}}, nil
}

func (a *App) openLauncher(context.Context) (end ending, err error) {
	cfg := a.cfg.Launcher
	launchers := map[string]launcher.Launcher{}
	defer func() {
		a.fleet = fleet.New(fleet.Config{Store: a.store, Shared: a.shared, Launchers: launchers, SessionLockKey: a.lockKey})
	}()
	if cfg.Kind == "" {
		a.catalog = a.catalog.Without(plan.Dedicated)
		a.log.Warn("dedicated plans are not offered: no launcher is configured")
		return end, nil
	}
	a.log.Info("launcher", "launcher", cfg.Kind, "flavour", cfg.Binary.Flavour, "version", cfg.Binary.Version,
		"dir", cfg.Dir)
	redoFull := prometheus.NewCounter(prometheus.CounterOpts{Name: "mysql_broker_dedicated_redo_log_full_total",
		Help: "Redo logs of dedicated servers that were full, kept statements waiting, and were made larger by this " +
			"process."})
	a.registry.MustRegister(redoFull)
	with := launcherConfig(cfg, a.log)
	with.Exec, with.OnRedoFull, with.Authority = a.execOnServer, redoFull.Inc, a.authority
	if a.launcher, err = process.New(with); err != nil {
		return end, fmt.Errorf("launcher: %w", err)
	}
	launchers[cfg.Kind] = a.launcher
	return ending{stop: a.launcher.Close}, nil
}

// execOnServer is for process.Config.
func (a *App) execOnServer(ctx context.Context, id string, e launcher.Endpoint, statement string) error {
	return fleet.Exec(ctx, a.store, id, e, statement)
}

func launcherConfig(cfg config.Launcher, log *slog.Logger) process.Config {
	return process.Config{Dir: cfg.Dir, Binary: cfg.Binary, Host: cfg.Host, BindAddress: cfg.Bind,
		PortMin: cfg.PortMin, PortMax: cfg.PortMax, LaunchTimeout: cfg.LaunchTimeout, Spares: cfg.Spares,
		Logger: log}
}

// withLauncher runs fn with the launcher that cfg describes, which starts and supervises no server.
func withLauncher(cfg config.Launcher, log *slog.Logger, fn func(*process.Launcher) error) error {
	l, err := process.Open(launcherConfig(cfg, log))
	if err != nil {
		return fmt.Errorf("launcher: %w", err)
	}
	defer l.Close()
	return fn(l)
}

// withServers runs fn with the store and the servers that cfg describes. It begins no other work: no task is carried
// out, and no server started.
func withServers(ctx context.Context, cfg config.Config, log *slog.Logger,
	fn func(*store.Store, *fleet.Fleet) error) error {
	s, err := store.Open(ctx, cfg.PostgresURL, cfg.Keys)
	if err != nil {
		return err
	}
	defer s.Close()
	lockKey, err := s.SessionLockKey(ctx)
	if err != nil {
		return err
	}
	if err := s.CheckKeys(ctx); err != nil {
		return err
	}
	servers, err := shared.Open(cfg.Shared, lockKey)
	if err != nil {
		return err
	}
	defer servers.Close()
	all := fleet.Config{Store: s, Shared: servers, SessionLockKey: lockKey}
	if cfg.Launcher.Kind == "" {
		return fn(s, fleet.New(all))
	}
	return withLauncher(cfg.Launcher, log, func(l *process.Launcher) error {
		all.Launchers = map[string]launcher.Launcher{cfg.Launcher.Kind: l}
		return fn(s, fleet.New(all))
	})
}
