// Package provisioner puts the operations on service instances and bindings together. Its terms are operations and
// plans; it knows nothing about HTTP.
//
// Each operation takes the road of package engine, and works on MySQL servers by means of package steps. The
// operations are in the packages instances, bindings and backups. What several of them do with data is in copying, and
// what stays of deleted instances in retained.
package provisioner

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/backups"
	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/credhub"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/memory"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/retained"
	"mysql-broker/provisioner/steps"
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
	Memory  *memory.Budget  // of copies, backups and restores; nil for no limit
	Tasks   task.Config     // its Logger is set from Logger
	OnFull  func()          // called when an instance is refused because every shared server is full; may be nil
	Backups *backup.Vault   // nil if there is no object store
	CredHub *credhub.Client // nil if there is no CredHub
	// Document returns what applications get, and CredHub keeps; it is set if there is a CredHub.
	Document  func(bindings.Credentials) map[string]any
	QuotasOff bool          // storage is not measured, so the recorded usage is out of date
	KeepAudit time.Duration // how long entries of the audit are kept; 0 means a year
	KeepMoved time.Duration // how long data can be read where it was before it was moved; 0 means a day
}

// Provisioner runs the operations on instances and bindings. Make one with New.
type Provisioner struct {
	*steps.Servers
	*instances.Instances
	*bindings.Bindings
	*copying.Copier

	backups  *backups.Backups
	retained *retained.Retained
}

// New starts a provisioner. It works on tasks that are due, including those of processes that died.
func New(cfg Config) *Provisioner {
	if cfg.OnFull == nil {
		cfg.OnFull = func() {}
	}
	e := &engine.Engine{Store: cfg.Store, Plans: cfg.Plans, Log: cfg.Logger}
	on := steps.New(e, cfg.Fleet, cfg.OnFull, cfg.QuotasOff)
	c := copying.New(on, cfg.Tasks.Workers, cfg.Memory)
	p := &Provisioner{Servers: on, Copier: c,
		Bindings: bindings.New(on, cfg.CredHub, cfg.Document),
		backups:  backups.New(c, cfg.Backups),
		retained: retained.New(on, cmp.Or(cfg.KeepAudit, 365*24*time.Hour))}
	p.Instances = instances.New(c, p.backups, p.retained, cfg.Limits, cmp.Or(cfg.KeepMoved, 24*time.Hour))
	cfg.Tasks.OnExpiry = p.Expired
	e.Start(cfg.Tasks, p.kinds())
	return p
}

// kinds are the kinds of tasks. p needs no parts if no workflow is asked for.
func (p *Provisioner) kinds() engine.Kinds {
	all := engine.Kinds{}
	engine.Add(all, p.Instances, instances.Kinds)
	engine.Add(all, p.Bindings, bindings.Kinds)
	engine.Add(all, p.backups, backups.Kinds)
	engine.Add(all, p.retained, retained.Kinds)
	return all
}

var known = new(Provisioner).kinds()

// TaskKinds returns the kinds of tasks by name.
func TaskKinds() map[string]task.Kind { return known.Tasks() }

// CancelTask is task.Cancel for these kinds of tasks.
func CancelTask(ctx context.Context, s *store.Store, id int64) (store.Task, error) {
	return task.Cancel(ctx, s, id, TaskKinds())
}

// RetryTask is engine.Kinds.Retry for these kinds of tasks.
func RetryTask(ctx context.Context, s *store.Store, id int64) (store.Task, error) {
	return known.Retry(ctx, s, id)
}
