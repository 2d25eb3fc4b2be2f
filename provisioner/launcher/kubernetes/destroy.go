package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

// destroyTime limits how long Destroy waits until all objects are gone, which usually takes one to three seconds. The
// cluster continues without the broker.
const destroyTime = 30 * time.Second

// Destroy implements launcher.Launcher. The volume may be free a moment later.
func (l *Launcher) Destroy(ctx context.Context, id string) error {
	return l.destroy(ctx, id, func(*server) (*api.Preconditions, error) { return nil, nil })
}

// DestroyUnused implements launcher.Launcher.
func (l *Launcher) DestroyUnused(ctx context.Context, id string) error {
	return l.destroy(ctx, id, func(s *server) (*api.Preconditions, error) {
		if s.kept() {
			return nil, fmt.Errorf("server %s: %w", id, launcher.ErrKept)
		}
		m := s.secret.Metadata
		return &api.Preconditions{UID: m.UID, ResourceVersion: m.ResourceVersion}, nil // a Keep meanwhile is a conflict
	})
}

// destroy removes a server if may returns no error. If the server changes meanwhile, destroy calls may again.
func (l *Launcher) destroy(ctx context.Context, id string, may func(*server) (*api.Preconditions, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, destroyTime, errStays)
	defer cancel()
	for pause := minPoll; ; pause = min(2*pause, time.Second) {
		s, err := l.secrets.load(ctx, id)
		if errors.Is(err, launcher.ErrNotFound) {
			l.run.up.Delete(id)
			return nil
		}
		if s == nil {
			if pause > minPoll && errors.Is(context.Cause(ctx), errStays) { // the time was over within a request
				return stays(ctx, id)
			}
			return err
		}
		if s.secret.Metadata.DeletionTimestamp.IsZero() {
			condition, err := may(s)
			if err != nil {
				return err
			}
			fault.Point("destroy", "looked")
			err = l.secrets.api.Delete(ctx, l.secrets.api.Path(api.Secrets, s.name),
				api.DeleteOptions{PropagationPolicy: "Foreground", Preconditions: condition})
			fault.Point("destroy", "deleted")
			if err != nil && !api.IsNotFound(err) && !api.IsConflict(err) {
				return fmt.Errorf("server %s: %w", id, err)
			}
		}
		select {
		case <-ctx.Done():
			return stays(ctx, id)
		case <-time.After(pause):
		}
	}
}

func stays(ctx context.Context, id string) error {
	return fmt.Errorf("server %s: wait until it is removed: %w", id, context.Cause(ctx))
}

// errStays is not final: the server's node may be lost, and then Kubernetes waits for it.
var errStays = fmt.Errorf("its objects are still there after %v; its node may be lost", destroyTime)
