package operator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

func upgradeCommand() *cobra.Command {
	var all bool
	var canaries, inFlight int
	q := store.InstanceQuery{Dedicated: true, State: store.Ready}
	var out output
	var f filters
	command := &cobra.Command{
		Use:   "upgrade",
		Short: "Upgrade dedicated servers to the versions of their plans",
		Long: `List the service instances whose dedicated servers have another version than their plans want. Nothing is
changed without --all.

With --all, they are upgraded: first the canaries, which are the first of the list, then the others. At the first
failure, no other upgrade begins; those that run are waited for. Run the command again to go on: what has its version is
left out. An update in progress is waited for: it may be the upgrade, begun by a developer. Instances that another
operation is changing are skipped.

Running brokers do the work, as for "cf upgrade-service": see docs/upgrade.md. Instances of Cloud Foundry are upgraded
through Cloud Controller, so that it knows their version. That needs CLOUD_CONTROLLER_CLIENT, a client of UAA with the
authority cloud_controller.admin. Run this where a broker with the launcher runs, because that knows the versions.

` + cli.JSONHelp + `
A row has instance_id, name, plan, server, from, to, result (absent without
--all: upgraded, failed, skipped, unfinished or "not begun"), reason and seconds.`,
		Example: `  mysql-broker upgrade
  mysql-broker upgrade --all --canaries 2 --max-in-flight 4
  mysql-broker upgrade --all --plan dedicated-small --space 3f5f5a0e-8d7e-4f6d-9a3c-0d5c7e1b2a94`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if canaries < 0 || inFlight < 1 {
				return errors.New("--canaries is at least 0, and --max-in-flight at least 1")
			}
			return withVersions(cmd, func(ctx context.Context, c *console) error {
				if err := f.check(ctx, c); err != nil {
					return err
				}
				due, err := c.outdated(ctx, q)
				if err != nil {
					return err
				}
				to := cmd.OutOrStdout()
				if !all {
					rows := theseOf(due, nil, c.documents.upgraded)
					return printList(to, out, rows, "instance", "name", "plan", "server", "from", "to")
				}
				u := upgrading{console: c, rows: newListing[upgradedDocument](to, cli.OnTerminal(to), out)}
				if u.platform, err = c.cloudController(ctx, due); err != nil {
					return err
				}
				return u.run(ctx, due, canaries, inFlight)
			})
		},
	}
	f = filtersOf(command, "instances")
	f.plan(&q.PlanIDs)
	f.text(&q.Space, "space", "of this space, by its GUID or name")
	out.addFlags(command)
	flags := command.Flags()
	flags.BoolVar(&all, "all", false, "upgrade the listed instances")
	flags.IntVar(&canaries, "canaries", 2, "how many are upgraded before the others")
	flags.IntVar(&inFlight, "max-in-flight", 4, "how many are upgraded at a time")
	return cli.Describe(command, `  0    the instances are listed or, with --all, have the versions of their plans
  1    some have not, an argument is wrong, or PostgreSQL cannot be reached; the output and standard error say which
`+cli.ExitConfiguration, cli.EnvironmentOf(config.ForUpgrade))
}

// withVersions is withConsole for a console that knows the versions that plans want.
func withVersions(cmd *cobra.Command, fn func(context.Context, *console) error) error {
	return withServers(cmd, config.ForUpgrade.Read, func(ctx context.Context, c *console, f *fleet.Fleet) error {
		offered, err := app.WithVersions(c.catalog, f)
		if err != nil {
			return err
		}
		return fn(ctx, newConsole(c.cfg, offered, c.store))
	})
}

// outdated lists the instances whose servers have another version than their plans want, ordered by id.
func (c *console) outdated(ctx context.Context, q store.InstanceQuery) (due []store.ListedInstance, err error) {
	err = c.store.Instances.Each(ctx, q, func(i store.ListedInstance) error {
		if !hasVersion(c.plans.Get(i.PlanID), i.ServerFlavour, i.ServerVersion) {
			due = append(due, i)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the instances: %w", err)
	}
	return due, nil
}

// hasVersion reports whether a server has the version that a plan wants, which may name a whole series.
func hasVersion(of plan.Plan, flavour, version string) bool {
	return of.Version == "" || launcher.Version{Flavour: flavour, Version: version}.Is(of.Flavour, of.Version)
}

// upgrading is a run of the command.
type upgrading struct {
	*console
	platform *cloudController // nil if no instance is one of Cloud Foundry

	mu      sync.Mutex
	rows    *listing[upgradedDocument]
	left    int   // instances that do not have their version afterwards
	printed error // of the output
	stopped bool  // an upgrade has failed
}

// upgradedDocument is a row of the output of --json.
type upgradedDocument struct {
	InstanceID string  `json:"instance_id"`
	Name       string  `json:"name,omitempty"`
	Plan       string  `json:"plan"`
	Server     string  `json:"server"`
	From       string  `json:"from"`
	To         string  `json:"to"`
	Result     string  `json:"result,omitempty"`
	Reason     string  `json:"reason,omitempty"`
	Seconds    float64 `json:"seconds,omitempty"`
}

// Results of --all.
const (
	upgraded   = "upgraded"
	failed     = "failed"
	skipped    = "skipped"    // another operation changes it
	unfinished = "unfinished" // the command was interrupted, or cannot see the end
	notBegun   = "not begun"
)

func (ds documents) upgraded(i store.ListedInstance) upgradedDocument {
	return upgradedDocument{InstanceID: i.ID, Name: i.Name, Plan: ds.plan(i.PlanID), Server: i.Location.Server,
		From: i.ServerVersion, To: ds.plans.Get(i.PlanID).Version}
}

func (d upgradedDocument) cells() []cell {
	seconds := ""
	if d.Seconds > 0 {
		seconds = strconv.FormatFloat(d.Seconds, 'f', 1, 64)
	}
	return []cell{{"instance", d.InstanceID}, {"name", d.Name}, {"plan", d.Plan}, {"server", d.Server}, {"from", d.From},
		{"to", d.To}, {"state", d.Result}, {"seconds", seconds}, {"reason", d.Reason}}
}

func (u *upgrading) run(ctx context.Context, due []store.ListedInstance, canaries, inFlight int) error {
	canaries = min(canaries, len(due))
	u.each(ctx, due[:canaries], inFlight)
	u.each(ctx, due[canaries:], inFlight)
	err := errors.Join(u.printed, u.rows.end())
	if u.left > 0 {
		err = errors.Join(err, fmt.Errorf("not upgraded: %d of %d; run this again to go on", u.left, len(due)))
	}
	return err
}

// each upgrades some instances, and waits for all that it has begun.
func (u *upgrading) each(ctx context.Context, some []store.ListedInstance, inFlight int) {
	var running errgroup.Group
	running.SetLimit(inFlight)
	for _, i := range some {
		running.Go(func() error { // when there is room
			d := u.documents.upgraded(i)
			if d.Result = notBegun; ctx.Err() == nil && !u.hasFailed() {
				began := time.Now()
				d.Result, d.Reason = u.upgrade(ctx, i)
				d.Seconds = float64(time.Since(began).Round(100*time.Millisecond)) / float64(time.Second)
			}
			u.ended(d)
			return nil
		})
	}
	_ = running.Wait() // the rows have the errors
}

func (u *upgrading) hasFailed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stopped
}

func (u *upgrading) ended(d upgradedDocument) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if d.Result != upgraded {
		u.left++
	}
	u.stopped = u.stopped || d.Result == failed
	u.printed = errors.Join(u.printed, u.rows.add(d), u.rows.flush())
}

// upgrade upgrades an instance. Before, it waits for an update in progress: that upgrade, or another change.
func (u *upgrading) upgrade(ctx context.Context, i store.ListedInstance) (result, reason string) {
	if err := u.awaitUpdate(ctx, i.ID); err != nil {
		return u.outcome(ctx, err)
	}
	full, err := u.store.Instances.Get(ctx, i.ID)
	if errors.Is(err, store.ErrNotFound) {
		return skipped, "it was deleted"
	}
	if err != nil {
		return u.outcome(ctx, err)
	}
	of := u.plans.Get(full.PlanID)
	if hasVersion(of, full.ServerFlavour, full.ServerVersion) {
		return upgraded, ""
	}
	// Cloud Foundry does not ask again for a version that it believes to be there, as after an undelete.
	if u.platform != nil && u.platform.has[i.ID] && full.MaintenanceVersion != of.MaintenanceVersion {
		err := u.platform.upgrade(ctx, i.ID, of.MaintenanceVersion)
		switch {
		case errors.Is(err, errControllerBusy):
			return skipped, err.Error()
		case err != nil:
			return u.outcome(ctx, err)
		}
		return u.check(ctx, i)
	}
	t, err := instances.Upgrade(ctx, u.store, u.plans, u.cfg.Backups.Configured(), i.ID)
	_, notNow := errors.AsType[engine.NotNowError](err)
	switch {
	case notNow || errors.Is(err, instances.ErrNoUpgrade) || errors.Is(err, store.ErrNotFound):
		return skipped, err.Error()
	case err != nil:
		return failed, err.Error()
	}
	if t, err = u.await(ctx, t.ID); err != nil {
		return u.outcome(ctx, err)
	}
	if t.State != store.Succeeded {
		return failed, fmt.Sprintf("%s: %s", task.Token(t.ID), t.Description)
	}
	return u.check(ctx, i)
}

// awaitUpdate waits for the end of an update that somebody else has begun.
func (u *upgrading) awaitUpdate(ctx context.Context, id string) error {
	t, err := u.store.Tasks.Latest(ctx, id, "", store.Update)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err == nil && t.State == store.InProgress:
		_, err = u.await(ctx, t.ID)
	}
	return err
}

// outcome is the result of an upgrade whose end cannot be seen because of err.
func (u *upgrading) outcome(ctx context.Context, err error) (result, reason string) {
	if ctx.Err() != nil {
		return unfinished, "the brokers go on"
	}
	return failed, err.Error()
}

// check reports whether an instance has the version of its plan after an update, which may have been for another one.
func (u *upgrading) check(ctx context.Context, i store.ListedInstance) (result, reason string) {
	now, err := u.store.Instances.Get(ctx, i.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return skipped, "it was deleted"
	case err != nil:
		return u.outcome(ctx, err)
	case !hasVersion(u.plans.Get(now.PlanID), now.ServerFlavour, now.ServerVersion):
		return failed, fmt.Sprintf("it has version %s after the update", now.ServerVersion)
	}
	return upgraded, ""
}
