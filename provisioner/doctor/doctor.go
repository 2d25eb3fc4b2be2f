// Package doctor compares the records in the store with the servers: databases and accounts of shared servers, and
// dedicated servers themselves. It finds orphans and missing resources, and repairs what is certain.
//
// Only a record (store.Resource) shows that something belongs to this broker. A name that looks like the broker's
// proves nothing: brokers may share a server, and PostgreSQL may have been restored from an old backup.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/clock"
	"mysql-broker/provisioner/credhub"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/inventory"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// Config has the dependencies and limits of a doctor.
type Config struct {
	Store *store.Store
	Plans plan.Set
	Fleet *fleet.Fleet
	// CredHub is nil if there is none.
	CredHub *credhub.Client
	// Objects is nil if there is no object store.
	Objects objectstore.Store
	// KeepRecord is how long the record of a resource is kept after the resource was first found deleted; default 1 h. It
	// must be far longer than any call that began before the deletion can take.
	KeepRecord time.Duration
	// BlockedAge is how old a deletion and a prepared XA transaction must be before the deletion counts as blocked by the
	// transaction; default 1 h.
	BlockedAge time.Duration
}

// Doctor examines and repairs. It is safe for concurrent use, in several replicas and while operations run.
type Doctor struct{ Config }

// New returns a doctor.
func New(cfg Config) *Doctor {
	cfg.KeepRecord, cfg.BlockedAge = cmp.Or(cfg.KeepRecord, time.Hour), cmp.Or(cfg.BlockedAge, blockedAge)
	return &Doctor{cfg}
}

// Report is the outcome of an examination.
type Report struct {
	Findings  []Finding
	Compared  Compared
	Reachable []string // shared servers whose databases and accounts are known, and "" for the dedicated servers
	Forgotten int64    // records that ExamineAndForget deleted
}

// Compared counts the recorded and the found resources, on servers that answered.
type Compared struct {
	SharedServers    int `json:"shared_servers"`
	Databases        int `json:"databases"`
	Accounts         int `json:"accounts"`
	DedicatedServers int `json:"dedicated_servers"`
}

// Examine compares everything and changes nothing. Servers that do not answer are findings, not errors. It needs memory
// for the contents of the fullest servers, and for its findings.
//
// It compares each server twice. Each time, it reads the server before the store. It returns only what it found both
// times, so that running operations cause no findings. A resource is an orphan if the server still has it although the
// store has recorded its end. It is missing if the server lacks it although the store says, before and after, that it
// is ready. It is unrecorded if the server has it and the store, read later, has no record of it: resources are
// recorded before they are created.
func (d *Doctor) Examine(ctx context.Context) (Report, error) { return d.examine(ctx, false) }

// ExamineAndForget is Examine, and deletes the records of resources that have ended and that no examination has found
// for Config.KeepRecord.
func (d *Doctor) ExamineAndForget(ctx context.Context) (Report, error) { return d.examine(ctx, true) }

// atOnce is how many servers are examined at a time: few, so that users notice nothing, but more than one, because one
// may take long to answer.
const atOnce = 2

func (d *Doctor) examine(ctx context.Context, forget bool) (Report, error) {
	held, err := d.Store.Recovery.Hold(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("read whether PostgreSQL is held: %w", err)
	}
	var wrong *clock.Error
	if err := clock.Compare(ctx, d.Store, d.Fleet.Shared); err != nil && !errors.As(err, &wrong) {
		return Report{}, err
	}
	// While PostgreSQL is held, what its records say was deleted may exist.
	forget = forget && held == nil && wrong == nil
	servers, err := inventory.Servers(ctx, d.Store, d.Fleet)
	if err != nil {
		return Report{}, err
	}
	var all Report
	var mu sync.Mutex
	examining, within := errgroup.WithContext(ctx) // after an error, it does not wait for the other servers
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
		return all, context.Cause(within) // it says more than the error if the caller has cancelled
	}
	credentials, err := d.credentials(ctx)
	if err != nil {
		return all, fmt.Errorf("compare what is recorded with CredHub: %w", err)
	}
	all.Findings = append(all.Findings, credentials...)
	if d.Objects != nil {
		if err := objectstore.Probe(ctx, d.Objects); err != nil && ctx.Err() == nil {
			all.Findings = append(all.Findings, Finding{Problem: Unreachable, Kind: objectStore, Name: d.Objects.String(),
				ToDo: fmt.Sprintf("make it usable: %v", err)})
		}
	}
	if wrong != nil {
		all.Findings = append(all.Findings, Finding{Problem: Deviating, Kind: clocks, Name: "PostgreSQL",
			ToDo: wrong.Error()})
	}
	abandoned, err := d.Store.Resources.Abandoned(ctx)
	if err != nil {
		return all, fmt.Errorf("list what is left half-way: %w", err)
	}
	for _, a := range abandoned {
		all.Findings = append(all.Findings, abandonedFinding(a))
	}
	slices.SortFunc(all.Findings, compareFindings)
	slices.Sort(all.Reachable)
	return all, nil
}

func (d *Doctor) examineServer(ctx context.Context, server string, forget bool) (Report, error) {
	first, err := d.compare(ctx, server, forget)
	if err != nil || len(first.Findings) == 0 {
		return first, err
	}
	second, err := d.compare(ctx, server, false)
	second.Forgotten = first.Forgotten
	before := make(map[Finding]bool, len(first.Findings))
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
