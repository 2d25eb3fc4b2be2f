package doctor

import (
	"context"
	"errors"
	"sync"
	"time"

	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// listTimeout bounds how long a server may take to tell what it holds.
const listTimeout = 20 * time.Second

var errNotConfigured = errors.New("it is not in the configuration")

// thing is one of what a server holds, whoever made it.
type thing struct{ kind, name string }

// contents are what a server holds, or why that is not known.
type contents struct {
	things map[thing]bool
	err    error
}

// servers tells what every shared server holds, by name, and as "" which dedicated servers there are, if a launcher is
// configured.
func (d *Doctor) servers(ctx context.Context) map[string]contents {
	all := map[string]contents{}
	if d.dedicated != nil {
		all[""] = d.dedicatedServers(ctx)
	}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, server := range d.shared.All() {
		asked.Go(func() {
			c := contentsOf(ctx, server)
			mu.Lock()
			defer mu.Unlock()
			all[server.Name()] = c
		})
	}
	asked.Wait()
	return all
}

func contentsOf(ctx context.Context, server *shared.Server) contents {
	if err := server.Answers(ctx); err != nil {
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
	c := contents{things: make(map[thing]bool, len(databases)+len(accounts))}
	c.add(store.DatabaseResource, databases)
	c.add(store.AccountResource, accounts)
	return c
}

func (d *Doctor) dedicatedServers(ctx context.Context) contents {
	ids, err := d.dedicated.List(ctx)
	if err != nil {
		return contents{err: err}
	}
	c := contents{things: make(map[thing]bool, len(ids))}
	c.add(store.DedicatedResource, ids)
	return c
}

func (c contents) add(kind string, names []string) {
	for _, name := range names {
		c.things[thing{kind, name}] = true
	}
}
