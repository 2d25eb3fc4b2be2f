package steps

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

// WithRoom returns a Do function for work on the server to which an instance is to come. If the disk there is full, the
// task is given up at once: the cleanup makes room for others, and a dedicated server on a full disk may hang until
// then. moves says that the instance is on another server so far.
func (ss *Servers) WithRoom(i store.Instance, moves bool,
	do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) error {
		err := do(ctx, run)
		if full := ss.NoRoom(ctx, run, i, moves, err); full != nil {
			return full
		}
		return err
	}
}

// NoRoom returns the error that gives a task up if err says that the disk of the instance's server is full, else nil.
func (ss *Servers) NoRoom(ctx context.Context, run *task.Run, i store.Instance, moves bool, err error) error {
	_, ofSource := errors.AsType[*transfer.SourceError](err)
	if err == nil || ofSource || ctx.Err() != nil || run.Alive() != nil {
		return nil
	}
	full := mysqladmin.DiskFull(err)
	if !full && mysqladmin.CannotReach(err) {
		trouble, asking := ss.Fleet.Trouble(ctx, i.Location)
		if asking != nil {
			ss.Log.Warn("could not ask whether the disk of a server is full", "task", task.Token(run.Task.ID),
				"instance_id", i.ID, "error", asking)
		}
		full = trouble == launcher.VolumeFull
	}
	if !full {
		return nil
	}
	what, next := "new service instance", "Delete the service instance, and create it again when there is room."
	if moves {
		what, next = "plan", "The service instance stays where it was."
	}
	return task.Permanent(fmt.Sprintf("The disk of the MySQL server for the %s is full. %s Tell your operator about %s.",
		what, next, task.Token(run.Task.ID)), NotUnreachable(err))
}
