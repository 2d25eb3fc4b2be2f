package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// keep ends a cleanup that finds more than its task made. A provision makes an empty database, and hands it out only
// when it has succeeded: one that holds more is not what is to be undone. PostgreSQL was restored from a backup in
// which the provision is in progress, say.
func keep(t store.Task, err error) error {
	return task.Keep(fmt.Sprintf("This service instance could not be made ready, but it holds data from earlier, which "+
		"were kept. Do not delete it; tell your operator about %s.", task.Token(t.ID)), err)
}

// dropEmptyDatabase undoes the creation of a database.
func (p *Provisioner) dropEmptyDatabase(i store.Instance, lock sessionLock) task.Step {
	return task.Step{Name: "drop database", Progress: "Dropping the database", Timeout: dropTimeout,
		Do: func(ctx context.Context, run *task.Run) error {
			err := p.onServer(ctx, run, i, lock, func(ctx context.Context, s *mysqladmin.Session) error {
				return s.DropEmptyDatabase(ctx, i.Database)
			})
			if errors.Is(err, mysqladmin.ErrHoldsData) {
				return keep(run.Task, err)
			}
			return err
		}}
}

// destroyUnused undoes the launch of a server.
func (p *Provisioner) destroyUnused(i store.Instance) task.Step {
	return task.Step{Name: "destroy", Progress: "Removing the server", Timeout: launchTimeout,
		Do: func(ctx context.Context, run *task.Run) error {
			if err := p.unused(ctx, i); err != nil {
				return keep(run.Task, err)
			}
			err := p.fleet.DestroyUnused(ctx, i.Location)
			if errors.Is(err, launcher.ErrKept) {
				return keep(run.Task, err)
			}
			return err
		}}
}

// unusedTimeout bounds how long a server may take to answer whether it holds data.
const unusedTimeout = 10 * time.Second

// unused returns an error if a dedicated server holds data, or has another admin password than the provision gave it.
// The launcher knows more reliably which servers were handed out (launcher.Launcher.Keep), but not those of releases
// that did not tell it. A server that does not answer is left to what the launcher knows.
func (p *Provisioner) unused(ctx context.Context, i store.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, unusedTimeout)
	defer cancel()
	holds := false
	err := p.fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) (err error) {
		holds, err = admin.HoldsData(ctx, i.Database)
		return err
	})
	switch {
	case mysqladmin.AccessDenied(err):
		return fmt.Errorf("the server's admin password is another one than the provision gave it: %w", err)
	case holds:
		return fmt.Errorf("server %s: %w", i.Location.Server, mysqladmin.ErrHoldsData)
	}
	return nil
}

// keepServed tells the launcher which servers were handed out by a release that did not. It is needed once, and costs
// little.
func (p *Provisioner) keepServed(ctx context.Context) {
	kept := map[store.Location]bool{}
	there, err := p.fleet.Dedicated(ctx)
	if errors.Is(err, fleet.ErrNoLauncher) {
		return
	}
	for _, at := range there {
		kept[at] = true
	}
	if err == nil {
		err = p.store.EachInstance(ctx, store.InstanceQuery{Dedicated: true, State: store.Ready},
			func(i store.ListedInstance) error {
				if !kept[i.Location] {
					return nil
				}
				err := p.fleet.Keep(ctx, i.Location)
				if errors.Is(err, launcher.ErrNotFound) { // it was deleted since
					return nil
				}
				return err
			})
	}
	if err != nil && ctx.Err() == nil {
		p.log.Warn("could not mark the dedicated servers that are in use; it is tried again at the next start", "error", err)
	}
}
