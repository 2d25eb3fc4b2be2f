package retained

import (
	"context"
	"errors"
	"time"

	"mysql-broker/provisioner/clock"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/task"
)

// RemoveOldTasks is the kind of the daily task that deletes records that no platform asks for any more: those of tasks
// that ended long ago, of deletions, and of bindings that have expired; and entries of the audit.
const RemoveOldTasks = "remove-old-tasks"

const (
	keepTasks = 30 * 24 * time.Hour // Cloud Controller may ask about an operation for 7 days
	// removalTime is long enough to delete millions of tasks. A removal that takes longer continues in its next attempt.
	removalTime = 30 * time.Minute
)

var removeOldTasksKind = engine.Scheduled(24*time.Hour,
	task.Step{Name: "delete old tasks", Progress: "Deleting old tasks", Timeout: removalTime}, (*Retained).removeOldTasks)

func (rs *Retained) removeOldTasks(ctx context.Context, _ *task.Run) error {
	if err := clock.Compare(ctx, rs.Store, rs.Fleet.Shared); err != nil {
		return err
	}
	deleted, err := rs.Store.Tasks.DeleteFinished(ctx, keepTasks)
	if deleted > 0 {
		rs.Log.Info("deleted old tasks", "count", deleted)
	}
	_, forgetting := rs.Store.Instances.ForgetAbsences(ctx)
	audited, auditing := rs.Store.Audit.Delete(ctx, rs.keepAudit)
	if audited > 0 {
		rs.Log.Info("deleted old entries of the audit", "count", audited)
	}
	expired, expiring := rs.Store.Bindings.DeleteExpired(ctx, rs.keepAudit)
	if expired > 0 {
		rs.Log.Info("deleted old records of expired bindings", "count", expired)
	}
	return errors.Join(err, forgetting, auditing, expiring)
}
