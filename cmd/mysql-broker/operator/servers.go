package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
)

func serversCommand() *cobra.Command {
	var dedicated bool
	var name, state string
	command := &cobra.Command{
		Use:   "servers [NAME]",
		Short: "List shared servers with their states, or dedicated ones; or show one",
		Long: `List the shared servers, or show one. The configured ones come first, then those that have instances but are no
longer configured. The command queries each for its state:

  ok               it gets instances, unless it is full
  drained          it answers, and gets no more instances: see "mysql-broker drain"
  unusable         the broker's account lacks privileges, or the server lacks a required setting, so it gets no
                   instances; servers NAME shows which
  unreachable      it does not answer within seconds, so it gets no instances
  not-configured   the broker has no address for it, and can do nothing with its instances

With --dedicated, list the recorded dedicated servers with their launchers and instances, without querying them. If the
environment has their launchers, upgrade is the version to which "mysql-broker upgrade" brings a server, and trouble
says why a server does not run: volume-full or, with a launcher for Kubernetes, also node-lost, evicted, out-of-memory,
crashing, not-ready, no-image, no-node or no-pod.

` + cli.JSONHelp + `
A shared server has server, kind, state, reason (why it
is not ok), recommended_settings (missing lines for its option file that isolate tenants), flavour, version,
host, port, instances, max_databases, sold_connections (that all its bindings together may have open at the same time),
connections (that are open), max_connections (that it allows) and drained_since (null if it is not drained). A dedicated
one has server, kind, launcher, trouble (if there is any), flavour and version (as the server reported them last),
upgrade (if there is any), instance_id, plan, plan_id, state (its instance's; deleted, if that is gone) and
created_at.`,
		Example: `  mysql-broker servers
  mysql-broker servers --state drained --json
  mysql-broker servers mysql-server-1
  mysql-broker servers --dedicated`,
	}
	command.Flags().BoolVar(&dedicated, "dedicated", false, "list dedicated servers")
	l := list[serverDocument]{filters: filtersOf(command, "shared servers"), arguments: []*string{&name},
		rows: func(c *console, ctx context.Context) iter.Seq2[serverDocument, error] {
			return these(c.sharedServers(ctx, state))
		},
		one: func(c *console, ctx context.Context, out io.Writer, asJSON bool) error {
			return c.showServer(ctx, out, name, asJSON)
		}}
	l.choice(&state, "state", "in this state", serverOK, serverDrained, serverUnusable, serverUnreachable,
		serverNotConfigured)
	l.command(command)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if !dedicated || len(args) > 0 {
			return l.run(cmd, args)
		}
		return withConfig(cmd, config.ForDoctor.Read, func(ctx context.Context, c *console) error {
			return printList(cmd.OutOrStdout(), l.output, c.dedicatedServers(ctx, cmd.ErrOrStderr()))
		})
	}
	command.MarkFlagsMutuallyExclusive("dedicated", "state")
	return command
}

// States of a shared server.
const (
	serverOK            = "ok"
	serverDrained       = "drained"
	serverUnusable      = "unusable"
	serverUnreachable   = "unreachable"
	serverNotConfigured = "not configured"
)

// serverDocument is a shared server in the output of --json.
type serverDocument struct {
	Server          string     `json:"server"`
	Kind            string     `json:"kind"`
	State           string     `json:"state"`
	Reason          string     `json:"reason,omitempty"`
	Recommended     []string   `json:"recommended_settings,omitempty"`
	Flavour         string     `json:"flavour,omitempty"`
	Version         string     `json:"version,omitempty"`
	Host            string     `json:"host,omitempty"`
	Port            int        `json:"port,omitempty"`
	Instances       int        `json:"instances"`
	MaxDatabases    int        `json:"max_databases,omitempty"`
	SoldConnections int64      `json:"sold_connections"`
	Connections     int        `json:"connections,omitempty"`
	MaxConnections  int        `json:"max_connections,omitempty"`
	DrainedSince    *time.Time `json:"drained_since"`
}

func (d serverDocument) version() string {
	if d.Flavour == "" {
		return ""
	}
	return d.Flavour + " " + d.Version
}

func (d serverDocument) address() string {
	if d.Host == "" {
		return ""
	}
	return net.JoinHostPort(d.Host, strconv.Itoa(d.Port))
}

func (d serverDocument) cells() []cell {
	return []cell{{"server", d.Server}, {"state", d.State}, {"instances", strconv.Itoa(d.Instances)},
		{"max_databases", number(d.MaxDatabases)}, {"sold", strconv.FormatInt(d.SoldConnections, 10)},
		{"max_connections", number(d.MaxConnections)}, {"drained", ifSet(d.DrainedSince, since)}, {"version", d.version()},
		{"address", d.address()}}
}

// sharedServers queries the states of all shared servers concurrently. It returns those in a state, or all for "".
func (c *console) sharedServers(ctx context.Context, state string) ([]serverDocument, error) {
	recorded, err := c.store.Servers.Recorded(ctx)
	if err != nil {
		return nil, fmt.Errorf("read which shared servers there are records of: %w", err)
	}
	bindings, err := c.store.Reports.BindingCounts(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the bindings on shared servers: %w", err)
	}
	sold := shared.SoldConnections(c.plans, bindings)
	servers, err := shared.Open(c.cfg.Shared, nil) // no key is needed, because nothing is locked
	if err != nil {
		return nil, err
	}
	defer servers.Close()
	all := make([]serverDocument, len(servers.All()))
	var asked sync.WaitGroup
	for n, server := range servers.All() {
		d := &all[n]
		*d = serverDocument{Server: server.Name(), Kind: "shared", State: serverOK, Host: server.Host, Port: server.Port,
			MaxDatabases: server.MaxDatabases}
		asked.Go(func() { d.ask(ctx, server) })
	}
	asked.Wait()
	for _, r := range recorded {
		n := slices.IndexFunc(all, func(d serverDocument) bool { return d.Server == r.Name })
		if n < 0 {
			if r.Instances == 0 && !r.Drained() {
				continue // it was removed from the configuration, and has no instances
			}
			all = append(all, serverDocument{Server: r.Name, Kind: "shared", State: serverNotConfigured})
			n = len(all) - 1
		}
		d := &all[n]
		d.Instances, d.SoldConnections, d.DrainedSince = r.Instances, sold[r.Name], r.DrainedSince
		if r.Drained() && d.State == serverOK {
			d.State = serverDrained
		}
	}
	return slices.DeleteFunc(all, func(d serverDocument) bool { return state != "" && state != d.State }), nil
}

// askTime limits how long an unreachable server delays the list, unless Config.AnswerTime is longer.
const askTime = 3 * time.Second

func (d *serverDocument) ask(ctx context.Context, server *shared.Server) {
	ctx, cancel := context.WithTimeout(ctx, max(askTime, server.AnswerTime))
	defer cancel()
	flavour, err := server.Flavour(ctx)
	d.Flavour, d.Version = flavour.Name, flavour.Version
	if err == nil {
		var of mysqladmin.Connections
		of, err = server.Connections(ctx)
		d.Connections, d.MaxConnections = of.Open, of.Max
	}
	var recommended []mysqladmin.Setting
	if err == nil {
		recommended, err = server.Setup.CheckSettings(ctx)
		d.Recommended = mysqladmin.Lines(recommended)
	}
	_, unset := errors.AsType[*mysqladmin.SettingsError](err)
	if err == nil || unset {
		err = errors.Join(server.Setup.CheckPrivileges(ctx), err)
	}
	if err == nil {
		return
	}
	d.State, d.Reason = serverUnreachable, err.Error()
	if _, lacking := errors.AsType[*mysqladmin.PrivilegesError](err); lacking || unset {
		d.State = serverUnusable
	}
}

func (c *console) showServer(ctx context.Context, out io.Writer, name string, asJSON bool) error {
	all, err := c.sharedServers(ctx, "")
	if err != nil {
		return err
	}
	n := slices.IndexFunc(all, func(d serverDocument) bool { return d.Server == name })
	if n < 0 {
		return c.showDedicated(ctx, out, name, asJSON)
	}
	d := all[n]
	return details(out, asJSON, d, []cell{{"server", d.Server}, {"kind", d.Kind}, {"state", d.State}, {"reason", d.Reason},
		{"recommended settings", strings.Join(d.Recommended, "; ")},
		{"version", d.version()}, {"address", d.address()}, {"instances", strconv.Itoa(d.Instances)},
		{"max_databases", number(d.MaxDatabases)}, {"sold_connections", strconv.FormatInt(d.SoldConnections, 10)},
		{"connections", number(d.Connections)}, {"max_connections", number(d.MaxConnections)},
		{"drained", ifSet(d.DrainedSince, at)}})
}
