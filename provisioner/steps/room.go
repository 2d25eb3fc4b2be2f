package steps

import (
	"context"
	"errors"

	"mysql-broker/provisioner/engine"
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
			ss.Log.Warn("could not read whether the disk of a server is full", "task", task.Token(run.Task.ID),
				"instance_id", i.ID, "error", asking)
		}
		full = trouble == launcher.VolumeFull
	}
	if !full {
		return nil
	}
	if moves {
		return engine.Fail(run.Task, engine.OtherServerFull, err)
	}
	return engine.Fail(run.Task, engine.NewServerFull, err)
}
