// Package provisioner creates and deletes MySQL resources: databases on shared servers, dedicated servers, and the
// accounts of bindings. Its terms are operations and plans; it knows nothing about HTTP.
//
// Each operation has a file with its request, what is recorded, and its workflow. The operations share these files:
// operation.go runs a task or joins it, kinds.go registers the kinds of tasks, placement.go chooses a shared server,
// launch.go calls launchers, sessionlock.go works on a MySQL server, undo.go is the cleanup of a provision.
package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/credhub"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Config has the dependencies and options of a provisioner.
type Config struct {
	Store   *store.Store
	Plans   plan.Set
	Limits  plan.Limits // of all plans together
	Fleet   *fleet.Fleet
	Logger  *slog.Logger
	Tasks   task.Config     // its Logger is set from Logger
	OnFull  func()          // called when an instance is refused because every shared server is full; may be nil
	Backups *backup.Vault   // nil if there is no object store
	CredHub *credhub.Client // nil if there is no CredHub
	// Document returns what applications get, and CredHub keeps; it is set if there is a CredHub.
	Document  func(Credentials) map[string]any
	QuotasOff bool          // storage is not measured, so the recorded usage is out of date
	KeepAudit time.Duration // how long entries of the audit are kept; 0 means a year
	KeepMoved time.Duration // how long data can be read where they were before they were moved; 0 means a day
}

// Provisioner runs the operations on instances and bindings. Make one with New.
type Provisioner struct {
	store     *store.Store
	plans     plan.Set
	limits    plan.Limits
	fleet     *fleet.Fleet
	tasks     *task.Runner
	placer    placer
	log       *slog.Logger
	vault     *backup.Vault
	credHub   *credhub.Client
	document  func(Credentials) map[string]any
	quotasOff bool
	keepMoved time.Duration
	keepAudit time.Duration
	copies    *copyTurns
	expired   chan struct{}  // signals that there are expired bindings
	closing   sync.WaitGroup // sessions being closed in the background
}

// New starts a provisioner. It works on tasks that are due, including those of processes that died.
func New(cfg Config) *Provisioner {
	if cfg.OnFull == nil {
		cfg.OnFull = func() {}
	}
	p := &Provisioner{store: cfg.Store, plans: cfg.Plans, limits: cfg.Limits, fleet: cfg.Fleet, log: cfg.Logger,
		quotasOff: cfg.QuotasOff, vault: cfg.Backups, credHub: cfg.CredHub, document: cfg.Document,
		expired: make(chan struct{}, 1), keepMoved: cmp.Or(cfg.KeepMoved, 24*time.Hour),
		keepAudit: cmp.Or(cfg.KeepAudit, 365*24*time.Hour),
		placer:    placer{store: cfg.Store, servers: cfg.Fleet.Shared, log: cfg.Logger, onFull: cfg.OnFull}}
	p.copies = newCopyTurns(cfg.Tasks.Workers)
	cfg.Tasks.Logger = cfg.Logger
	if cfg.Tasks.MaxWait == nil {
		cfg.Tasks.MaxWait = p.maxWait
	}
	cfg.Tasks.OnExpiry = func() {
		select {
		case p.expired <- struct{}{}:
		default:
		}
	}
	p.tasks = task.New(cfg.Store, p.taskKinds(), cfg.Tasks)
	return p
}

// maxWait is how long a task may wait for its server: nine tenths of the time for which platforms poll, so that they
// read the outcome before they give up.
func (p *Provisioner) maxWait(t store.Task) time.Duration {
	polled := p.plans.Get(t.PlanID).MaxPolling
	if polled == 0 {
		polled = task.DefaultMaxWait
	}
	return polled / 10 * 9
}

// HandOver hands the tasks that no request waits for over to other processes.
func (p *Provisioner) HandOver() { p.tasks.HandOver() }

// Stop hands over all tasks and waits until nothing runs in this process any more. Requests should have ended before.
func (p *Provisioner) Stop() {
	p.tasks.Stop()
	p.closing.Wait()
}

// Held returns store.ErrHeld if PostgreSQL is older than the servers, which may hold what is not recorded.
func (p *Provisioner) Held(ctx context.Context) error {
	hold, err := p.store.Hold(ctx)
	if err != nil {
		return fmt.Errorf("read whether PostgreSQL is held: %w", err)
	}
	if hold != nil {
		return store.ErrHeld
	}
	return nil
}
