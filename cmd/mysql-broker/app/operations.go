package app

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/provisioner"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/mark"
	"mysql-broker/provisioner/periodic"
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
	a.registry.MustRegister(newStateCollector(a.store, a.shared, a.catalog.Plans(), a.log))
	a.provisioner = provisioner.New(provisioner.Config{Store: a.store, Plans: a.catalog.Plans(), Fleet: a.fleet,
		Logger: a.log, OnFull: metrics.full.Inc, QuotasOff: a.cfg.Quota.Interval == 0,
		Tasks: task.Config{Tracer: a.tracer, OnEnd: metrics.taskEnded, OnRetry: metrics.taskRetried,
			OnRunOut: metrics.ranOut.Inc}})
	return ending{leave: a.provisioner.HandOver, stop: a.provisioner.Stop}, nil
}

func (a *App) startExaminations(context.Context) (ending, error) {
	a.examinations = newExaminations(doctor.New(doctor.Config{Store: a.store, Plans: a.catalog.Plans(),
		Fleet: a.fleet}), a.log)
	a.registry.MustRegister(prometheus.CollectorFunc(a.examinations.collect))
	return background(a.examinations.run), nil
}

func (a *App) startQuotas(context.Context) (ending, error) {
	interval := a.cfg.Quota.Interval
	guard := quota.Start(quota.Config{Store: a.store, Plans: a.catalog.Plans(), Fleet: a.fleet,
		Logger: a.log, Interval: interval})
	if interval > 0 {
		a.registry.MustRegister(newQuotaCollector(a.store, a.shared, len(a.cfg.Launchers) > 0, interval, a.catalog.Plans(),
			a.log))
	}
	return closing(guard.Close), nil
}

const (
	keepTasks  = 30 * 24 * time.Hour // Cloud Controller may ask about an operation for 7 days
	removeEach = time.Hour
)

// startRemoval starts to delete tasks that no platform polls any more, and absences that are older than any request.
func (a *App) startRemoval(context.Context) (ending, error) {
	status := &periodic.Status{What: "removing old tasks", Log: a.log}
	return background(func(ctx context.Context) {
		periodic.Run(ctx, periodic.Schedule{Every: removeEach}, status, func(ctx context.Context) error {
			n, err := a.removeTasks(ctx)
			if n > 0 {
				a.log.Info("deleted old tasks", "count", n)
			}
			_, forgetting := a.store.ForgetAbsences(ctx)
			return errors.Join(err, forgetting)
		})
	}), nil
}

// removeTasks deletes nothing while PostgreSQL is held, because the outcome of its tasks is not known yet.
func (a *App) removeTasks(ctx context.Context) (int64, error) {
	held, err := a.store.Hold(ctx)
	if err != nil || held != nil {
		return 0, err
	}
	return a.store.DeleteFinishedTasks(ctx, keepTasks)
}
