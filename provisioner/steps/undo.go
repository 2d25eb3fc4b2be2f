package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Keep ends a cleanup that finds data, and keeps the data. A provision creates an empty database, and nobody gets
// access to it before the provision has succeeded. So the data is older: for example, PostgreSQL was restored from a
// backup in which the provision is in progress.
func Keep(t store.Task, err error) error {
	return task.Keep(fmt.Sprintf("This service instance could not be created, but its database holds earlier data, which "+
		"was kept. Do not delete it; tell your operator about %s.", task.Token(t.ID)), err)
}

// DropEmptyDatabase is the step that undoes the creation of a database.
func (ss *Servers) DropEmptyDatabase(i store.Instance) task.Step {
	return task.Step{Name: "drop database", Progress: "Dropping the database", Timeout: DropTimeout,
		Do: ss.InSession(i, InstanceLock(i.ID), func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
			err := s.Databases.DropEmpty(ctx, i.Database)
			if errors.Is(err, mysqladmin.ErrHoldsData) {
				return Keep(run.Task, err)
			}
			return err
		})}
}

// DestroyUnused is the step that undoes the launch of a server.
func (ss *Servers) DestroyUnused(i store.Instance) task.Step {
	return task.Step{Name: "destroy", Progress: "Removing the server", Timeout: LaunchTimeout,
		Do: func(ctx context.Context, run *task.Run) error {
			if err := ss.unused(ctx, i); err != nil {
				return Keep(run.Task, err)
			}
			err := ss.Fleet.DestroyUnused(ctx, i.Location)
			if errors.Is(err, launcher.ErrKept) {
				return Keep(run.Task, err)
			}
			return err
		}}
}

// unusedTimeout bounds how long a server may take to answer whether it holds data.
const unusedTimeout = 10 * time.Second

// unused returns an error if a dedicated server holds data, or has another admin password than the provision gave it.
// It is a second check: the launcher also keeps servers that were handed over (launcher.Launcher.Keep). If the server
// does not answer, only the launcher checks.
func (ss *Servers) unused(ctx context.Context, i store.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, unusedTimeout)
	defer cancel()
	holds := false
	err := ss.Fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) error {
		unfinished, err := admin.Unfinished(ctx, i.Database) // the data of a provision that fills the database
		if err == nil && !unfinished {
			holds, err = admin.HoldsData(ctx, i.Database)
		}
		return err
	})
	switch {
	case mysqladmin.AccessDenied(err):
		return fmt.Errorf("the server's admin password is not the one that the provision gave it: %w", err)
	case holds:
		return fmt.Errorf("server %s: %w", i.Location.Server, mysqladmin.ErrHoldsData)
	}
	return nil
}
