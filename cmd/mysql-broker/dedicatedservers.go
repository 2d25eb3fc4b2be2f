package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/provisioner"
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

	Members []memberDocument `json:"members,omitempty"`
}

// memberDocument is a member of a group in the output of --json.
type memberDocument struct {
	Address string `json:"address"`
	State   string `json:"state"`
	Primary bool   `json:"primary"`
	Queue   int    `json:"queue"`
}

// members names the members by their ports: "13400 primary, 13402 online (7 queued), 13404 missing".
func (d dedicatedDocument) members() string {
	all := make([]string, len(d.Members))
	for n, m := range d.Members {
		_, port, _ := net.SplitHostPort(m.Address)
		state := m.State
		if m.Primary {
			state = "primary"
		}
		all[n] = port + " " + state
		if m.Queue > 0 {
			all[n] += fmt.Sprintf(" (%d queued)", m.Queue)
		}
	}
	return strings.Join(all, ", ")
}

func (c *console) dedicatedDocument(i store.ListedInstance) dedicatedDocument {
	return dedicatedDocument{Server: i.Server, Kind: "dedicated", Launcher: i.Launcher, InstanceID: i.ID,
		Flavour: i.ServerFlavour, Version: i.ServerVersion, Plan: c.planName(i.PlanID), PlanID: i.PlanID, State: i.State,
		CreatedAt: i.CreatedAt.UTC()}
}

func (d dedicatedDocument) version() string {
	return launcher.Version{Flavour: d.Flavour, Version: d.Version}.String()
}

// listDedicated writes to warn which launcher cannot be asked; what is recorded is listed anyway.
func (c *console) listDedicated(ctx context.Context, warn io.Writer, l *listing) error {
	known, err := app.AskLaunchers(ctx, c.cfg, c.catalog, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Fprintln(warn, "mysql-broker:", err)
	}
	return l.end(c.store.EachInstance(ctx, store.InstanceQuery{Dedicated: true}, func(i store.ListedInstance) error {
		d := c.dedicatedDocument(i)
		d.Trouble = string(known.Troubles[i.Launcher][i.Server])
		for _, m := range known.Members[i.Launcher][i.Server] {
			d.Members = append(d.Members, memberDocument{m.Address, string(m.State), m.Primary, m.Queue})
		}
		has := launcher.Version{Flavour: i.ServerFlavour, Version: i.ServerVersion}
		if to, can := provisioner.Upgradable(known.Plans.Get(i.PlanID), has); can {
			d.Upgrade = to.Version
		}
		return l.add(d, d.Server, d.Launcher, d.InstanceID, d.Plan, d.version(), d.Upgrade, d.State, d.Trouble,
			d.members(), since(d.CreatedAt))
	}))
}

func (c *console) showDedicated(ctx context.Context, cmd *cobra.Command, name string, asJSON bool) error {
	r, err := c.store.Resource(ctx, store.DedicatedResource, store.DedicatedServers, name)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("there is no server %q; `mysql-broker servers` lists the shared ones", name)
	}
	if err != nil {
		return err
	}
	// The instance is deleted. The doctor deletes the record when the server has been gone for long enough.
	d := dedicatedDocument{Server: name, Kind: "dedicated", InstanceID: r.InstanceID, State: "deleted",
		CreatedAt: time.Now().Add(-r.Age).Round(time.Second).UTC()}
	if err := c.store.EachInstance(ctx, store.InstanceQuery{ID: r.InstanceID}, func(i store.ListedInstance) error {
		if i.Server == name {
			d = c.dedicatedDocument(i)
		}
		return nil
	}); err != nil {
		return err
	}
	return details(cmd.OutOrStdout(), asJSON, d, [][2]string{{"server", d.Server}, {"kind", d.Kind},
		{"launcher", d.Launcher}, {"version", d.version()}, {"instance", d.InstanceID}, {"plan", d.Plan}, {"state", d.State},
		{"created", at(d.CreatedAt)}})
}
