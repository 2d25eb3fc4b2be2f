package operator

import (
	"context"

	"github.com/spf13/cobra"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// console has the data sources of the commands that show the broker's records.
type console struct {
	cfg     config.Config
	catalog *catalog.Catalog
	plans   plan.Set
	store   *store.Store

	names     names
	documents documents
}

func newConsole(cfg config.Config, c *catalog.Catalog, s *store.Store) *console {
	plans := c.Plans()
	return &console{cfg, c, plans, s, names{s, plans, cfg.Shared}, documents{plans}}
}

// documents makes rows of what is recorded.
type documents struct{ plans plan.Set }

// plan is a plan's name or, if it is no longer in the catalog, its id.
func (ds documents) plan(id string) string { return ds.plans.Get(id).Name }

// withConsole runs fn with a console for the environment's configuration. No broker need run, and it starts no work.
func withConsole(cmd *cobra.Command, fn func(context.Context, *console) error) error {
	return withConfig(cmd, config.ForOperator.Read, fn)
}

// withConfig is withConsole for a configuration that a function of package config reads.
func withConfig(cmd *cobra.Command, read cli.Reading, fn func(context.Context, *console) error) error {
	cfg, c, err := configured(cmd, read)
	if err != nil {
		return err
	}
	s, err := store.Open(cmd.Context(), cfg.PostgresURL, cfg.Keys)
	if err != nil {
		return err
	}
	defer s.Close()
	s.ActAs(app.Operator())
	return fn(cmd.Context(), newConsole(cfg, c, s))
}

// withServers is withConfig with the servers of the configuration, none of which it starts.
func withServers(cmd *cobra.Command, read cli.Reading,
	fn func(context.Context, *console, *fleet.Fleet) error) error {
	cfg, c, err := configured(cmd, read)
	if err != nil {
		return err
	}
	return app.WithServers(cmd.Context(), cfg, cli.Logger(cmd, cfg.LogLevel), func(s *store.Store, f *fleet.Fleet) error {
		return fn(cmd.Context(), newConsole(cfg, c, s), f)
	})
}

// configured reads a command's configuration from the environment, and the catalog.
func configured(cmd *cobra.Command, read cli.Reading) (cfg config.Config, c *catalog.Catalog, err error) {
	getenv, err := cli.Environment(cmd)
	if err != nil {
		return cfg, nil, err
	}
	return cli.Load(read, getenv)
}
