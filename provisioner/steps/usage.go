package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// CountBindings counts the bindings of an instance. allowed is how many its plan allows, 0 if the plan was removed.
func (ss *Servers) CountBindings(ctx context.Context, i store.Instance) (n, allowed int, err error) {
	if n, err = ss.Store.Bindings.Count(ctx, i.ID); err != nil {
		return 0, 0, fmt.Errorf("count the instance's bindings: %w", err)
	}
	return n, ss.PlanOf(i).MaxBindings, nil
}

// Storage is how much storage an instance used when it was last measured, and how much its plan allows.
type Storage struct {
	store.Usage
	Quota int64 // bytes; 0 if the plan was removed
}

// Storage returns the last measurement of an instance's storage. found is false before the first one, and while quotas
// are off.
func (ss *Servers) Storage(ctx context.Context, i store.Instance) (s Storage, found bool, err error) {
	if ss.quotasOff {
		return s, false, nil
	}
	usage, err := ss.Store.Usage.Get(ctx, i.ID)
	if errors.Is(err, store.ErrNotFound) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("read how much storage the instance uses: %w", err)
	}
	return Storage{usage, ss.PlanOf(i).Quota()}, true, nil
}

// Below reports whether an instance that is over its quota is below the restoring mark of another plan. It uses the
// last measurement, because the data could not grow since then.
func (ss *Servers) Below(ctx context.Context, i store.Instance, of plan.Plan) (bool, error) {
	usage, err := ss.Store.Usage.Get(ctx, i.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read how much storage the instance uses: %w", err)
	}
	return usage.Bytes*100 < of.Quota()*plan.RestoreBelow, nil
}

// shownTables is how many tables an Inspection lists.
const shownTables = 100

// Inspection is what Inspect reads from an instance's server.
type Inspection struct {
	At       time.Time
	Server   mysqladmin.Flavour
	Size     mysqladmin.Size
	Largest  []mysqladmin.Table // the largest tables, the largest first
	Tables   int                // how many tables there are
	Sessions map[string]int     // open sessions by account
}

// Inspect reads the size, the largest tables and the open sessions of some accounts from an instance's server. It
// changes nothing, and only ctx bounds how long it takes.
func (ss *Servers) Inspect(ctx context.Context, i store.Instance, accounts []string) (Inspection, error) {
	found := Inspection{At: time.Now()}
	err := ss.Fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) (err error) {
		if found.Server, err = admin.Flavour(ctx); err != nil {
			return err
		}
		if found.Sessions, err = admin.OpenSessions(ctx, accounts); err != nil {
			return err
		}
		found.Size, found.Largest, found.Tables, err = admin.Sizes.LargestTables(ctx, i.Database, shownTables)
		return err
	})
	if err != nil {
		return Inspection{}, fmt.Errorf("ask the server about the instance: %w", err)
	}
	return found, nil
}
