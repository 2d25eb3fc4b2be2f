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
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// Config is what a doctor works with.
type Config struct {
	Store *store.Store
	Plans plan.Set
	Fleet *fleet.Fleet
	// KeepRecord is how long a thing is kept on record after it was first seen to have ended and to be gone; default 1 h.
	// It must be far longer than anything that was begun before the end could still be under way.
	KeepRecord time.Duration
	// BlockedAge is for how long a deletion must have been under way, and a prepared XA transaction be there, for the one
	// to be in the other's way; default 1 h.
	BlockedAge time.Duration
}

// Doctor examines and repairs. It is safe for concurrent use, in several replicas and beside operations under way.
type Doctor struct {
	store *store.Store
	plans plan.Set
	fleet *fleet.Fleet
	keep  time.Duration

	blockedAge time.Duration
}

// New returns a doctor that has done nothing yet.
func New(cfg Config) *Doctor {
	return &Doctor{store: cfg.Store, plans: cfg.Plans, fleet: cfg.Fleet,
		keep: cmp.Or(cfg.KeepRecord, time.Hour), blockedAge: cmp.Or(cfg.BlockedAge, blockedAge)}
}

// Report is the outcome of an examination.
type Report struct {
	Findings  []Finding
	Compared  Compared
	Reachable []string // shared servers whose databases and accounts are known, and "" for the dedicated servers
	Forgotten int64    // records that ExamineAndForget removed
}

// Compared counts what was recorded or found, on servers that could be asked.
type Compared struct {
	SharedServers    int
	Databases        int
	Accounts         int
	DedicatedServers int
}

// Examine compares everything and changes nothing. Servers that cannot be asked are findings, not errors. What it holds
// in memory grows with the fullest servers, and with what it finds.
//
// It looks at each server twice, asking the server first and the store afterwards, and tells what it saw both times. So
// operations under way are no findings: what a server holds after the store has ceased to want it will never be wanted
// again; what is looked for in vain between two moments at which the store says it to be ready is missing; and what a
// server holds before it is looked for in the store in vain was not recorded before it was made.
func (d *Doctor) Examine(ctx context.Context) (Report, error) { return d.examine(ctx, false) }

// ExamineAndForget is Examine, and removes the records of what has ended and is gone for good: what this examination
// and the ones before, over Config.KeepRecord, have all seen to be gone.
func (d *Doctor) ExamineAndForget(ctx context.Context) (Report, error) { return d.examine(ctx, true) }

// atOnce is how many servers are examined at a time: few, as there is no hurry and users are to notice nothing, but
// more than one, as one may take long to answer.
const atOnce = 2

func (d *Doctor) examine(ctx context.Context, forget bool) (Report, error) {
	held, err := d.store.Hold(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("read whether PostgreSQL is held: %w", err)
	}
	forget = forget && held == nil // what it says to be gone may be there
	servers, err := d.servers(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("read which servers there are records of: %w", err)
	}
	var all Report
	var mu sync.Mutex
	examining, within := errgroup.WithContext(ctx) // after an error, the other servers are not waited for
	examining.SetLimit(atOnce)
	for _, server := range servers {
		examining.Go(func() error {
			r, err := d.examineServer(within, server, forget)
			mu.Lock()
			defer mu.Unlock()
			all.add(r)
			return err
		})
	}
	if examining.Wait() != nil {
		return all, context.Cause(within) // which tells more than the error does where the caller has given up
	}
	abandoned, err := d.store.Abandoned(ctx)
	if err != nil {
		return all, fmt.Errorf("look for what is left half-way: %w", err)
	}
	for _, a := range abandoned {
		all.Findings = append(all.Findings, abandonedFinding(a))
	}
	slices.SortFunc(all.Findings, compareFindings)
	slices.Sort(all.Reachable)
	return all, nil
}

func (d *Doctor) examineServer(ctx context.Context, server string, forget bool) (Report, error) {
	first, err := d.look(ctx, server, forget)
	if err != nil || len(first.Findings) == 0 {
		return first, err
	}
	second, err := d.look(ctx, server, false)
	second.Forgotten = first.Forgotten
	before := make(map[Identity]bool, len(first.Findings))
	for _, f := range first.Findings {
		before[f.Identity()] = true
	}
	second.Findings = slices.DeleteFunc(second.Findings, func(f Finding) bool { return !before[f.Identity()] })
	return second, err
}

func (r *Report) add(other Report) {
	r.Findings = append(r.Findings, other.Findings...)
	r.Reachable = append(r.Reachable, other.Reachable...)
	r.Forgotten += other.Forgotten
	r.Compared.SharedServers += other.Compared.SharedServers
	r.Compared.Databases += other.Compared.Databases
	r.Compared.Accounts += other.Compared.Accounts
	r.Compared.DedicatedServers += other.Compared.DedicatedServers
}
