package process

import (
	"context"
	"errors"
	"sync"
)

// startsAtOnce is how many servers are started or stopped side by side.
const startsAtOnce = 4

// StartAll returns when every server that was launched is up: those found running are left alone, the others started.
// One that cannot be started does not keep the others from it.
func (l *Launcher) StartAll(ctx context.Context) error {
	return l.each(func(inst instance) error {
		s, err := l.keepRunning(ctx, inst)
		if errors.Is(err, errRetired) {
			return nil
		}
		if err != nil {
			return err
		}
		defer s.close()
		return l.awaitUp(ctx, inst, s)
	})
}

// StopAll ends supervision, as Close does, and stops every server. Their data stay; StartAll brings them back.
func (l *Launcher) StopAll(ctx context.Context) error {
	l.Close()
	return l.each(func(inst instance) error {
		unlock, err := lockDir(ctx, inst.dir, lockInterval)
		if err != nil {
			return err
		}
		defer unlock()
		return l.stopIfRunning(ctx, inst, (*server).stop)
	})
}

// each calls do for every server, and returns all errors.
func (l *Launcher) each(do func(instance) error) error {
	instances, err := l.instances()
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	free := make(chan struct{}, startsAtOnce)
	errs := make([]error, len(instances))
	for i, inst := range instances {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			errs[i] = do(inst)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
