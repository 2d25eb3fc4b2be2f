package doctor

import (
	"context"
	"errors"
	"slices"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// listTimeout bounds reading the contents of a server.
const listTimeout = 20 * time.Second

var errNotConfigured = errors.New("it is not in the configuration")

// thing is a database, account or dedicated server that exists, whoever created it. Only a dedicated server has a
// launcher.
type thing struct{ kind, launcher, name string }

// contents are the things on a server, or the error of reading them.
type contents struct {
	things   map[thing]bool     // whether each has a record
	routines string             // the statement that lets the broker read the routines on a shared server; "" if it can
	grants   []mysqladmin.Grant // of a shared server's accounts
	asked    map[string]error   // for each launcher that was asked for its dedicated servers: the error, or nil
	err      error
}

// unknown returns why it is not known whether a recorded resource exists, or nil if it is known.
func (c contents) unknown(r store.Resource) error {
	if c.err != nil || r.Kind != store.DedicatedResource {
		return c.err
	}
	err, asked := c.asked[r.Launcher]
	if !asked {
		return errNotConfigured
	}
	return err
}

// recorded reports whether a thing exists, and marks it as recorded.
func (c contents) recorded(t thing) bool {
	_, there := c.things[t]
	if there {
		c.things[t] = true
	}
	return there
}

// servers lists the shared servers that are configured or have records, and "" for the dedicated servers.
func (d *Doctor) servers(ctx context.Context) ([]string, error) {
	all, err := d.store.ResourceServers(ctx)
	if err != nil {
		return nil, err
	}
	if len(d.fleet.Launchers()) > 0 {
		all = append(all, store.DedicatedServers)
	}
	for _, server := range d.fleet.Shared.All() {
		all = append(all, server.Name())
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// contents reads the contents of a shared server or, for "", lists the dedicated servers.
func (d *Doctor) contents(ctx context.Context, name string) contents {
	if name == store.DedicatedServers {
		return d.dedicatedServers(ctx)
	}
	server, err := d.fleet.Shared.Server(name)
	if err != nil {
		return contents{err: errNotConfigured}
	}
	return contentsOf(ctx, server)
}

func contentsOf(ctx context.Context, server *shared.Server) contents {
	if err := server.Ping(ctx); err != nil {
		return contents{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	databases, err := server.Databases(ctx)
	if err != nil {
		return contents{err: err}
	}
	accounts, err := server.Accounts(ctx)
	if err != nil {
		return contents{err: err}
	}
	grants, err := server.Grants(ctx)
	if err != nil {
		return contents{err: err}
	}
	routines, err := server.RoutinesGrant(ctx)
	if err != nil {
		return contents{err: err}
	}
	c := contents{things: make(map[thing]bool, len(databases)+len(accounts)), grants: grants, routines: routines}
	c.add(store.DatabaseResource, databases)
	c.add(store.AccountResource, accounts)
	return c
}

func (d *Doctor) dedicatedServers(ctx context.Context) contents {
	listing, err := d.fleet.Dedicated(ctx)
	if errors.Is(err, fleet.ErrNoLauncher) {
		return contents{err: errNotConfigured}
	}
	if err != nil {
		return contents{err: err}
	}
	c := contents{things: make(map[thing]bool, len(listing.There)), asked: listing.Asked}
	for _, at := range listing.There {
		c.things[thing{store.DedicatedResource, at.Launcher, at.Server}] = false
	}
	return c
}

func (c contents) add(kind string, names []string) {
	for _, name := range names {
		c.things[thing{kind: kind, name: name}] = false
	}
}
