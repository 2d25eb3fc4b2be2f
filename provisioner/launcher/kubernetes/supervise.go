package kubernetes

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"mysql-broker/provisioner/periodic"
)

// rightsInterval is how often the rights of the broker are checked until none is missing.
const rightsInterval = 30 * time.Second

// supervise starts the launcher's background work, which Close stops.
func (l *Launcher) supervise() {
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.background.Go(func() {
		ctx, checked := context.WithCancel(ctx)
		defer checked()
		status := &periodic.Status{What: "checking what the broker may do in Kubernetes", Level: slog.LevelError,
			Log: l.cfg.Logger, EachError: true}
		periodic.Run(ctx, periodic.Schedule{Every: rightsInterval}, status, func(ctx context.Context) error {
			missing, err := l.MissingRights(ctx)
			if missing != "" {
				err = errors.New(missing)
			}
			if err == nil {
				checked()
			}
			return err
		})
	})
	l.background.Go(func() {
		status := &periodic.Status{What: "watching the servers' pods", Log: l.cfg.Logger}
		periodic.Run(ctx, periodic.Schedule{Every: l.cfg.WatchPause}, status, l.keepWatch)
	})
	r := &renewal{l: l, due: map[string]bool{},
		status: periodic.Servers{Status: periodic.Status{What: "renewing a server's certificate", Level: slog.LevelError,
			Log: l.cfg.Logger}}}
	status := &periodic.Status{What: "renewing the servers' certificates", Level: slog.LevelError, Log: l.cfg.Logger}
	l.background.Go(func() {
		periodic.Run(ctx, periodic.Schedule{Every: l.cfg.RenewInterval, Rest: 1}, status, r.run)
	})
}
