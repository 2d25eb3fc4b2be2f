// Package doctor compares what is recorded in the store with what is on the servers: databases and accounts of shared
// servers, and dedicated servers themselves. It finds what was left over and what got lost, and mends what can be
// mended without a guess.
//
// What is the broker's own is known by its record (store.Resource) alone. A name that looks like the broker's proves
// nothing: brokers may share a server, and PostgreSQL may have been restored from an old backup.
package doctor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"mysql-broker/provisioner"
	"mysql-broker/provisioner/dedicated"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// Config is what a doctor works with.
type Config struct {
	Store     *store.Store
	Plans     []provisioner.Plan
	Shared    *shared.Servers
	Dedicated *dedicated.Servers // nil where no launcher is configured
	// KeepRecord is how long a thing is kept on record after it was first seen to have ended and to be gone; default 1 h.
	// It must be far longer than anything that was begun before the end could still be under way.
	KeepRecord time.Duration
}

// Doctor examines and repairs. It is safe for concurrent use, in several replicas and beside operations under way.
type Doctor struct {
	store     *store.Store
	plans     []provisioner.Plan
	shared    *shared.Servers
	dedicated *dedicated.Servers
	keep      time.Duration

	mu   sync.Mutex
	gone map[store.ResourceKey]time.Time // when what is gone was first seen to be, in examinations given to Forget
}

// New returns a doctor that has done nothing yet.
func New(cfg Config) *Doctor {
	return &Doctor{store: cfg.Store, plans: cfg.Plans, shared: cfg.Shared, dedicated: cfg.Dedicated,
		keep: cmp.Or(cfg.KeepRecord, time.Hour)}
}

// Report is the outcome of an examination.
type Report struct {
	Findings  []Finding
	Compared  Compared
	Reachable []string            // shared servers whose databases and accounts are known, and "" for the dedicated servers
	gone      []store.ResourceKey // what has ended and is on no server
}

// Compared counts what was recorded or found, on servers that could be asked.
type Compared struct {
	SharedServers    int
	Databases        int
	Accounts         int
	DedicatedServers int
}

// Examine compares everything and changes nothing. Servers that cannot be asked are findings, not errors.
//
// It looks twice, each time at the store first and at the servers afterwards, and tells what it saw both times. So
// operations under way are no findings: what is on a server after the store has ceased to want it will never be wanted
// again; what the store says to be ready before and after it was looked for in vain is missing; and what a server holds
// before it is looked for in the store in vain was not recorded before it was made.
func (d *Doctor) Examine(ctx context.Context) (Report, error) {
	first, err := d.look(ctx)
	if err != nil || len(first.Findings) == 0 {
		return first, err
	}
	second, err := d.look(ctx)
	if err != nil {
		return second, err
	}
	before := make(map[identity]bool, len(first.Findings))
	for _, f := range first.Findings {
		before[f.identity()] = true
	}
	second.Findings = slices.DeleteFunc(second.Findings, func(f Finding) bool { return !before[f.identity()] })
	slices.SortFunc(second.Findings, compareFindings)
	return second, nil
}

// Forget removes the records of what has ended and is gone for good, and says how many: what this examination and the
// ones before that were given to Forget, over Config.KeepRecord, have all seen to be gone.
func (d *Doctor) Forget(ctx context.Context, r Report) (int64, error) {
	return d.store.ForgetResources(ctx, d.longGone(r.gone, time.Now()))
}

func (d *Doctor) longGone(gone []store.ResourceKey, now time.Time) (long []store.ResourceKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	since := make(map[store.ResourceKey]time.Time, len(gone))
	for _, key := range gone {
		first, seen := d.gone[key]
		if !seen {
			first = now
		}
		since[key] = first
		if seen && now.Sub(first) >= d.keep {
			long = append(long, key)
		}
	}
	d.gone = since
	return long
}
