package provisioner

import (
	"context"
	"errors"
	"time"

	"mysql-broker/provisioner/clock"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// RemoveOldTasks is the kind of the daily task that deletes records that no platform asks for any more: those of tasks
// that ended long ago, of deletions, and of bindings that have expired; and entries of the audit.
const RemoveOldTasks = "remove-old-tasks"

const (
	keepTasks = 30 * 24 * time.Hour // Cloud Controller may ask about an operation for 7 days
	// removalTime is long enough to delete millions of tasks. A removal that takes longer continues in its next attempt.
	removalTime = 30 * time.Minute
)

var removeOldTasksKind = kind{
	Kind: task.Kind{Schedule: store.Schedule{Every: 24 * time.Hour}},
	workflow: func(_ context.Context, p *Provisioner, _ store.Task) (task.Workflow, error) {
		return task.Workflow{Steps: []task.Step{{Name: "delete old tasks", Progress: "Deleting old tasks",
			Timeout: removalTime, Do: func(ctx context.Context, _ *task.Run) error { return p.removeOldTasks(ctx) }}}}, nil
	},
}

func (p *Provisioner) removeOldTasks(ctx context.Context) error {
	if err := clock.Compare(ctx, p.store, p.fleet.Shared); err != nil {
		return err
	}
	deleted, err := p.store.DeleteFinishedTasks(ctx, keepTasks)
	if deleted > 0 {
		p.log.Info("deleted old tasks", "count", deleted)
	}
	_, forgetting := p.store.ForgetAbsences(ctx)
	audited, auditing := p.store.DeleteAudit(ctx, p.keepAudit)
	if audited > 0 {
		p.log.Info("deleted old entries of the audit", "count", audited)
	}
	expired, expiring := p.store.DeleteExpired(ctx, p.keepAudit)
	if expired > 0 {
		p.log.Info("deleted old records of expired bindings", "count", expired)
	}
	return errors.Join(err, forgetting, auditing, expiring)
}

// sureOfAges returns an error if something is due for its age and clocks disagree about how old it is.
func (p *Provisioner) sureOfAges(ctx context.Context, due int) error {
	if due == 0 {
		return nil
	}
	return clock.Compare(ctx, p.store, p.fleet.Shared)
}

// forEach calls do for everything that is due, even if some of the calls fail, until the task's lease is lost.
func forEach[Due any](run *task.Run, due []Due, do func(Due) error) error {
	var failed []error
	for _, d := range due {
		if err := run.Alive(); err != nil {
			return err
		}
		failed = append(failed, do(d))
	}
	return errors.Join(failed...)
}
