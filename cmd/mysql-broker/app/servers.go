package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

func (a *App) openShared(ctx context.Context) (end ending, err error) {
	a.catalog = a.catalog.Without(func(p plan.Plan) bool {
		has := func(s shared.Config) bool { return s.Exclusive == p.Exclusive }
		if p.Kind != plan.Shared || slices.ContainsFunc(a.cfg.Shared, has) {
			return false
		}
		a.log.Warn("a shared plan is not offered: no shared server for it is configured", "plan", p.Name)
		return true
	})
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

// openLaunchers also has them supervise their servers.
func (a *App) openLaunchers(context.Context) (ending, error) {
	if len(a.cfg.Launchers) == 0 {
		a.catalog = a.catalog.Without(func(p plan.Plan) bool { return p.Kind == plan.Dedicated })
		a.log.Warn("dedicated plans are not offered: no launcher is configured")
	}
	redoFull := prometheus.NewCounter(prometheus.CounterOpts{Name: "mysql_broker_dedicated_redo_log_full_total",
		Help: "Redo logs of dedicated servers that were full, kept statements waiting, and were made larger by this " +
			"process."})
	if len(a.cfg.Launchers) > 0 {
		a.registry.MustRegister(redoFull)
	}
	all, closeAll, err := openLaunchers(a.cfg.Launchers, func(name string) launcher.Options {
		return launcher.Options{Logger: a.log.With("launcher", name), Supervise: true,
			Exec: func(ctx context.Context, id string, e launcher.Endpoint, statement string) error {
				return fleet.Exec(ctx, a.store, store.DedicatedLocation(name, id), e, statement)
			},
			RecordEndpoint: func(ctx context.Context, id string, e launcher.Endpoint) error {
				return fleet.RecordEndpoint(ctx, a.store, store.DedicatedLocation(name, id), e)
			}, OnRedoFull: redoFull.Inc, Authority: a.authority}
	})
	if len(all) > 0 && err == nil {
		a.registry.MustRegister(troubleCollector{all, a.log})
	}
	a.fleet = fleet.New(fleet.Config{Store: a.store, Shared: a.shared, Launchers: all, SessionLockKey: a.lockKey,
		Dial: a.cfg.Dial})
	if err == nil {
		a.catalog, err = WithVersions(a.catalog, a.fleet)
	}
	return ending{stop: closeAll}, err
}

// WithVersions returns the catalog with the versions of servers that its plans want among those that launchers offer.
func WithVersions(c *catalog.Catalog, of *fleet.Fleet) (*catalog.Catalog, error) {
	return c.WithVersions(func(p plan.Plan) (v launcher.Version, found bool, err error) {
		offered, err := of.Versions(p.Launcher)
		if len(offered) == 0 || err != nil { // plans of a launcher that is missing here are refused when they are used
			return v, false, nil
		}
		if v, found = launcher.Newest(offered, p.Flavour, p.Version); !found {
			return v, false, fmt.Errorf("its servers are to be %s, and the launcher offers %v",
				launcher.Version{Flavour: p.Flavour, Version: p.Version}, offered)
		}
		return v, true, nil
	})
}

// passive are the options of a launcher that does nothing by itself.
func passive(log *slog.Logger) func(name string) launcher.Options {
	return func(name string) launcher.Options { return launcher.Options{Logger: log.With("launcher", name)} }
}

// openLaunchers opens all launchers, or none and returns an error. options are those of the launcher of that name.
func openLaunchers(configured []launchers.Named,
	options func(name string) launcher.Options) (map[string]launcher.Launcher, func(), error) {
	all := map[string]launcher.Launcher{}
	closeAll := func() {
		for _, l := range all {
			l.Close()
		}
	}
	for _, c := range configured {
		l, err := c.Open(options(c.Name))
		if err != nil {
			closeAll()
			return nil, func() {}, fmt.Errorf("launcher %s: %w", c.Name, err)
		}
		all[c.Name] = l
	}
	return all, closeAll, nil
}

// WithServers runs fn with the store and the servers of cfg, for a command. The broker need not run. It starts no other
// work: no tasks, and no servers.
func WithServers(ctx context.Context, cfg config.Config, log *slog.Logger,
	fn func(*store.Store, *fleet.Fleet) error) error {
	s, err := store.Open(ctx, cfg.PostgresURL, cfg.Keys)
	if err != nil {
		return err
	}
	defer s.Close()
	s.ActAs(Operator())
	lockKey, err := s.Keys.SessionLockKey(ctx)
	if err != nil {
		return err
	}
	if err := s.Keys.Check(ctx); err != nil {
		return err
	}
	servers, err := shared.Open(cfg.Shared, lockKey)
	if err != nil {
		return err
	}
	defer servers.Close()
	dedicated, closeAll, err := openLaunchers(cfg.Launchers, passive(log))
	if err != nil {
		return err
	}
	defer closeAll()
	return fn(s, fleet.New(fleet.Config{Store: s, Shared: servers, Launchers: dedicated, SessionLockKey: lockKey}))
}
