package app

import (
	"context"
	"sync/atomic"
	"time"

	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/periodic"
)

// objectStore is whether the object store could be used when it was probed last.
type objectStore struct{ failed atomic.Bool }

// probeInterval is how often a broker probes its object store.
const probeInterval = time.Minute

// startProbes does nothing without an object store.
func (a *App) startProbes(context.Context) (ending, error) {
	objects, err := a.cfg.Backups.Open()
	if err != nil || objects == nil {
		return ending{}, err
	}
	a.objects = &objectStore{}
	status := &periodic.Status{What: "use of the object store", Meanwhile: "backups, restores and archives of logs wait",
		Log: a.log}
	return background(func(ctx context.Context) {
		periodic.Run(ctx, periodic.Schedule{Every: probeInterval}, status, func(ctx context.Context) error {
			err := objectstore.Probe(ctx, objects)
			if ctx.Err() == nil {
				a.objects.failed.Store(err != nil)
			}
			return err
		})
	}), nil
}
