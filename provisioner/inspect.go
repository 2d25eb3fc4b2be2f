package provisioner

import (
	"context"
	"fmt"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// shownTables is how many tables an Inspection lists.
const shownTables = 100

// Inspection is what an instance's server tells of it.
type Inspection struct {
	At       time.Time
	Server   mysqladmin.Flavour
	Size     mysqladmin.Size
	Largest  []mysqladmin.Table // some of the tables, the largest first
	Tables   int                // how many there are
	Sessions map[string]int     // open ones of each account that was asked for
}

// Inspect asks an instance's server about it and some accounts. It changes nothing, and takes as long as ctx lets it.
func (p *Provisioner) Inspect(ctx context.Context, i store.Instance, accounts []string) (Inspection, error) {
	found := Inspection{At: time.Now()}
	err := p.fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) (err error) {
		if found.Server, err = admin.Flavour(ctx); err != nil {
			return err
		}
		if found.Sessions, err = admin.OpenSessions(ctx, accounts); err != nil {
			return err
		}
		if found.Size, err = admin.DatabaseSize(ctx, i.Database); err != nil {
			return err
		}
		found.Largest, found.Tables, err = admin.LargestTables(ctx, i.Database, shownTables)
		return err
	})
	if err != nil {
		return Inspection{}, fmt.Errorf("ask the server about the instance: %w", err)
	}
	return found, nil
}
