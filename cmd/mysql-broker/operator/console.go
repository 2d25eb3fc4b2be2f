package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// console has the data sources of the commands that show the broker's records.
type console struct {
	cfg     config.Config
	catalog *catalog.Catalog
	plans   plan.Set
	store   *store.Store
}

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
	return fn(cmd.Context(), &console{cfg: cfg, catalog: c, plans: c.Plans(), store: s})
}

// configured reads a command's configuration from the environment, and the catalog.
func configured(cmd *cobra.Command, read cli.Reading) (cfg config.Config, c *catalog.Catalog, err error) {
	getenv, err := cli.Environment(cmd)
	if err != nil {
		return cfg, nil, err
	}
	return cli.Load(read, getenv)
}

// planName is a plan's name or, if it is no longer in the catalog, its id.
func (c *console) planName(id string) string { return c.plans.Get(id).Name }

// planIDs returns the ids of the plans with a name or id; nil, which means all, for "".
func (c *console) planIDs(ctx context.Context, name string) (ids []string, err error) {
	if name == "" {
		return nil, nil
	}
	var names []string
	for _, p := range c.plans {
		names = append(names, p.Name)
		if p.Name == name || p.ID == name {
			ids = append(ids, p.ID)
		}
	}
	if ids != nil {
		return ids, nil
	}
	removed, err := c.store.Instances.PlanInUse(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("look for the plan: %w", err)
	}
	if !removed {
		return nil, fmt.Errorf("there is no plan %q; the catalog has %s", name, strings.Join(names, ", "))
	}
	return []string{name}, nil
}

// instanceID returns the id of the instance that a person has called by its id or name.
func (c *console) instanceID(ctx context.Context, name string) (string, error) {
	id, err := c.store.Instances.Named(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return "", &noInstance{name}
	}
	return id, err
}

// noInstance is a store.ErrNotFound that says what there is not.
type noInstance struct{ name string }

func (e *noInstance) Error() string { return fmt.Sprintf("there is no service instance %q", e.name) }

func (*noInstance) Unwrap() error { return store.ErrNotFound }

// instanceOrDeleted is instanceID for what is also known of deleted instances, by their ids. "" stands for
// all instances.
func (c *console) instanceOrDeleted(ctx context.Context, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	id, err := c.instanceID(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return name, nil
	}
	return id, err
}

// serverNames lists the shared servers that are configured or recorded.
func (c *console) serverNames(ctx context.Context) (names []string, err error) {
	recorded, err := c.store.Servers.Recorded(ctx)
	if err != nil {
		return nil, fmt.Errorf("read which shared servers there are records of: %w", err)
	}
	for _, s := range c.cfg.Shared {
		names = append(names, s.Admin.Name)
	}
	for _, s := range recorded {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// checkServer returns an error if no shared server has that name; "" is valid.
func (c *console) checkServer(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	names, err := c.serverNames(ctx)
	if err == nil && !slices.Contains(names, name) {
		err = fmt.Errorf("there is no shared server %q; there is %s", name, cmp.Or(strings.Join(names, ", "), "none"))
	}
	return err
}
