package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/broker"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/backups"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/mark"
	"mysql-broker/provisioner/memory"
	"mysql-broker/provisioner/quota"
	"mysql-broker/provisioner/task"
)

// startMarks returns when PostgreSQL has been compared with the marks on all servers that respond.
func (a *App) startMarks(ctx context.Context) (ending, error) {
	marks, err := mark.Start(ctx, mark.Config{Store: a.store, Fleet: a.fleet, Logger: a.log})
	if err != nil {
		return ending{}, err
	}
	return closing(marks.Close), nil
}

// startOperations starts to run tasks. When the broker stops, it hands running tasks to other brokers, except those for
// which requests wait.
func (a *App) startOperations(context.Context) (ending, error) {
	metrics := newMetrics(a.registry, a.catalog.Plans())
	vault, err := openVault(a.cfg)
	if err != nil {
		return ending{}, err
	}
	if vault == nil && len(backups.BackupSchedules(a.catalog.Plans())) > 0 {
		a.log.Warn("plans have backup_every_hours, and no object store is configured: this broker takes no backups")
	}
	a.registry.MustRegister(a.newStateCollector(vault != nil))
	if a.credHub, err = a.cfg.CredHub.Open(); err != nil {
		return ending{}, err
	}
	a.memory = memory.NewBudget(a.cfg.MemoryLimit)
	a.provisioner = provisioner.New(provisioner.Config{Store: a.store, Plans: a.catalog.Plans(),
		Limits: a.catalog.Limits(), Fleet: a.fleet, Logger: a.log, OnFull: metrics.full.Inc, Backups: vault,
		CredHub: a.credHub, Document: broker.Document(a.cfg.CATrusted), QuotasOff: a.cfg.Quota == 0,
		KeepMoved: a.cfg.KeepMoved, KeepAudit: a.cfg.KeepAudit, Memory: a.memory,
		Tasks: task.Config{Tracer: a.tracer, OnEnd: metrics.taskEnded, OnRetry: metrics.taskRetried,
			OnRunOut: metrics.ranOut.Inc}})
	a.registry.MustRegister(collectCopies(a.provisioner.Copies))
	return ending{leave: a.provisioner.Tasks.HandOver, stop: func() {
		a.provisioner.Stop()
		if a.credHub != nil {
			a.credHub.Close()
		}
	}}, nil
}

// startExpiry starts to end expired bindings, including those that expired while no broker ran.
func (a *App) startExpiry(context.Context) (ending, error) {
	return background(a.provisioner.Expire), nil
}

// startCredHub does nothing without a CredHub.
func (a *App) startCredHub(context.Context) (ending, error) {
	if a.credHub == nil {
		return ending{}, nil
	}
	return background(a.provisioner.SyncCredHub), nil
}

func (a *App) startExaminations(context.Context) (ending, error) {
	objects, err := a.cfg.Backups.Open()
	if err != nil {
		return ending{}, err
	}
	a.examinations = &examinations{log: a.log, doctor: doctor.New(doctor.Config{Store: a.store, Plans: a.catalog.Plans(),
		Fleet: a.fleet, CredHub: a.credHub, Objects: objects})}
	a.registry.MustRegister(prometheus.CollectorFunc(a.examinations.collect))
	return background(a.examinations.run), nil
}

func (a *App) startQuotas(context.Context) (ending, error) {
	interval := a.cfg.Quota
	guard := quota.Start(quota.Config{Store: a.store, Plans: a.catalog.Plans(), Fleet: a.fleet,
		Logger: a.log, Interval: interval})
	if interval > 0 {
		a.registry.MustRegister(newQuotaCollector(a.store, a.shared, len(a.cfg.Launchers) > 0, interval, a.catalog.Plans(),
			a.log))
	}
	return closing(guard.Close), nil
}
