package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/inventory"
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
	limits   []string           // what somebody can do so that nothing is limited on a shared server
	lost     map[string]error   // nodes of a shared server that is a cluster, and why each is lost
	holdings inventory.Holdings // of a shared server
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

// contents reads the contents of a shared server or, for "", lists the dedicated servers.
func (d *Doctor) contents(ctx context.Context, name string) contents {
	if name == store.DedicatedServers {
		return d.dedicatedServers(ctx)
	}
	server, err := d.Fleet.Shared.Server(name)
	if err != nil {
		return contents{err: errNotConfigured}
	}
	c := contentsOf(ctx, server)
	if c.err != nil || !server.Exclusive {
		return c
	}
	states, err := d.Store.Servers.States(ctx, []string{name})
	if held := states[name].Instances; held > 1 {
		c.limits = append(c.limits, fmt.Sprintf("it is exclusive, and holds %d instances: turn exclusive off, move all but "+
			"one to other servers, and turn it on again", held))
	}
	c.err = err
	return c
}

func contentsOf(ctx context.Context, server *shared.Server) contents {
	if err := server.Ping(ctx); err != nil {
		return contents{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	holds, err := inventory.Read(ctx, server.Server)
	if err != nil {
		return contents{err: err}
	}
	limits, err := limitsOf(ctx, server)
	if err != nil {
		return contents{err: err}
	}
	lost, err := server.Cluster.Lost(ctx)
	if err != nil {
		return contents{err: err}
	}
	c := contents{things: map[thing]bool{}, holdings: holds, limits: limits, lost: lost}
	c.add(store.DatabaseResource, holds.Databases)
	c.add(store.AccountResource, holds.Accounts)
	return c
}

// limitsOf returns what an administrator of a shared server can do so that all operations work there.
func limitsOf(ctx context.Context, server *shared.Server) (toDo []string, err error) {
	grant, err := server.Setup.RoutinesGrant(ctx)
	if err != nil {
		return nil, err
	}
	if grant != "" {
		toDo = append(toDo, "as an administrator of the server, run: "+grant+
			"; without it, instances that have routines cannot be copied")
	}
	zones, err := server.Setup.HasTimeZones(ctx)
	if err == nil && !zones {
		toDo = append(toDo, "load the time zones with mysql_tzinfo_to_sql or mariadb-tzinfo-to-sql; without them, "+
			"CONVERT_TZ with names of zones returns NULL")
	}
	return toDo, err
}

func (d *Doctor) dedicatedServers(ctx context.Context) contents {
	listing, err := d.Fleet.Dedicated(ctx)
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
