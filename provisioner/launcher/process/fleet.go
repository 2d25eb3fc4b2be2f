package process

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// startsAtOnce is how many servers are started or stopped at the same time.
const startsAtOnce = 4

// StartAll returns when every launched server is up. It leaves running servers alone and starts the others. If one
// cannot be started, the others still are.
func (l *Launcher) StartAll(ctx context.Context) error {
	return l.run.place.each(func(sd serverDir) error {
		s, err := l.run.keepRunning(ctx, sd)
		if errors.Is(err, errRetired) {
			return nil
		}
		if err != nil {
			return err
		}
		defer s.close()
		return awaitUp(ctx, sd, s, l.run.startTimeout)
	})
}

// StopAll ends supervision, as Close does, and stops every server. Their data stays; StartAll starts them again.
// Servers that still run when the context ends are killed, even if another process holds their lock; they recover when
// started.
func (l *Launcher) StopAll(ctx context.Context) error {
	l.Close()
	return l.run.place.each(func(sd serverDir) error {
		unlock, err := lockDir(ctx, sd.dir)
		if err == nil {
			defer unlock()
			err = l.run.stopIfRunning(ctx, sd, (*server).stop)
		}
		if err != nil && ctx.Err() != nil {
			return l.run.stopIfRunning(context.WithoutCancel(ctx), sd, (*server).kill)
		}
		return err
	})
}

// each calls do for every server, and returns all errors.
func (p place) each(do func(serverDir) error) error {
	instances, err := p.servers()
	if err != nil {
		return err
	}
	errs := make([]error, len(instances))
	var all errgroup.Group
	all.SetLimit(startsAtOnce)
	for i, sd := range instances {
		all.Go(func() error {
			errs[i] = do(sd)
			return nil
		})
	}
	_ = all.Wait() // errs has them all
	return errors.Join(errs...)
}
