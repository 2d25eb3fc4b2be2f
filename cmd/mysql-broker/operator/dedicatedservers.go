package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"time"

	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/store"
)

// dedicatedDocument is a dedicated server in the output of --json.
type dedicatedDocument struct {
	Server     string    `json:"server"`
	Kind       string    `json:"kind"`
	Launcher   string    `json:"launcher,omitempty"` // not known of a deleted instance's
	Trouble    string    `json:"trouble,omitempty"`
	Flavour    string    `json:"flavour,omitempty"`
	Version    string    `json:"version,omitempty"`
	Upgrade    string    `json:"upgrade,omitempty"` // the version to which it can be upgraded
	InstanceID string    `json:"instance_id"`
	Plan       string    `json:"plan"`
	PlanID     string    `json:"plan_id"`
	State      string    `json:"state"`
	CreatedAt  time.Time `json:"created_at"`
}

func (ds documents) dedicated(i store.ListedInstance) dedicatedDocument {
	return dedicatedDocument{Server: i.Server, Kind: "dedicated", Launcher: i.Launcher, InstanceID: i.ID,
		Flavour: i.ServerFlavour, Version: i.ServerVersion, Plan: ds.plan(i.PlanID), PlanID: i.PlanID, State: i.State,
		CreatedAt: i.CreatedAt}
}

func (d dedicatedDocument) version() string {
	return launcher.Version{Flavour: d.Flavour, Version: d.Version}.String()
}

func (d dedicatedDocument) cells() []cell {
	return []cell{{"server", d.Server}, {"launcher", d.Launcher}, {"instance", d.InstanceID}, {"plan", d.Plan},
		{"version", d.version()}, {"upgrade", d.Upgrade}, {"state", d.State}, {"trouble", d.Trouble},
		{"age", since(d.CreatedAt)}}
}

// dedicatedServers writes to warn which launcher cannot be asked; what is recorded is listed anyway.
func (c *console) dedicatedServers(ctx context.Context, warn io.Writer) iter.Seq2[dedicatedDocument, error] {
	known, err := app.AskLaunchers(ctx, c.cfg, c.catalog, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Fprintln(warn, "mysql-broker:", err)
	}
	q := store.InstanceQuery{Dedicated: true}
	return rowsOf(ctx, q, c.store.Instances.Each, func(i store.ListedInstance) dedicatedDocument {
		d := c.documents.dedicated(i)
		d.Trouble = string(known.Troubles[i.Launcher][i.Server])
		has := launcher.Version{Flavour: i.ServerFlavour, Version: i.ServerVersion}
		if to, can := instances.Upgradable(known.Plans.Get(i.PlanID), has); can {
			d.Upgrade = to.Version
		}
		return d
	})
}

func (c *console) showDedicated(ctx context.Context, out io.Writer, name string, asJSON bool) error {
	r, err := c.store.Resources.Get(ctx, store.DedicatedResource, store.DedicatedServers, name)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("there is no server %q; `mysql-broker servers` lists the shared ones", name)
	}
	if err != nil {
		return err
	}
	// The instance is deleted. The doctor deletes the record when the server has been gone for long enough.
	d := dedicatedDocument{Server: name, Kind: "dedicated", InstanceID: r.InstanceID, State: "deleted",
		CreatedAt: time.Now().Add(-r.Age).Round(time.Second).UTC()}
	q := store.InstanceQuery{ID: r.InstanceID}
	found, err := collect(rowsOf(ctx, q, c.store.Instances.Each, c.documents.dedicated), 1)
	if err != nil {
		return err
	}
	if len(found) == 1 && found[0].Server == name {
		d = found[0]
	}
	return details(out, asJSON, d, []cell{{"server", d.Server}, {"kind", d.Kind},
		{"launcher", d.Launcher}, {"version", d.version()}, {"instance", d.InstanceID}, {"plan", d.Plan}, {"state", d.State},
		{"created", at(d.CreatedAt)}})
}
