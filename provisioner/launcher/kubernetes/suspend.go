package kubernetes

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
)

// Suspend implements launcher.Launcher. The StatefulSet stays, without a pod; so do the volume and the address.
func (l *Launcher) Suspend(ctx context.Context, id string) (err error) {
	defer func() { err = explain(err) }()
	s, err := l.find(ctx, id)
	if err == nil && s.state.Phase == phaseLaunching {
		err = launcher.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("server %s: %w", id, err)
	}
	if err := l.abandonUpgrade(ctx, s, ignored); err != nil {
		return err
	}
	if s.state.Phase == phaseReady {
		if err := l.changeWork(ctx, s, func(s *server) { s.state.Phase = phaseSuspended }); err != nil {
			return err
		}
		fault.Point("suspend", "recorded")
	}
	if s.state.Group != nil {
		return l.stopMembers(ctx, s)
	}
	return l.stopPod(ctx, s)
}

// stopPod returns NotYet until a suspended server has no pod.
func (l *Launcher) stopPod(ctx context.Context, s *server) error {
	if err := l.applyWork(ctx, s, nil); err != nil {
		return err
	}
	l.up.Delete(s.id)
	var p pod
	err := l.api.get(ctx, l.api.path(pods, s.podName()), &p)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return launcher.NotYet(minPoll, "Stopping mysqld")
}

// resume makes a suspended server one that is to run, with the spec's limits and nodes.
func (l *Launcher) resume(ctx context.Context, s *server, spec launcher.Spec) error {
	stop := l.stopPod
	if s.state.Group != nil {
		stop = l.stopMembers
	}
	if err := stop(ctx, s); err != nil { // a Suspend may have been cut off
		return err
	}
	return l.changeWork(ctx, s, func(s *server) {
		s.state.Phase, s.state.Resize = phaseReady, nil
		claim := s.state.ClaimMB
		s.state.size = sizeOf(spec)
		s.state.ClaimMB = claim
		l.writeSettings(s)
		for key, value := range spec.Labels {
			s.secret.Metadata.Annotations[labelPrefix+key] = value
		}
	})
}

// isSuspended reports whether a server is suspended, from the metadata of its Secret.
func isSuspended(m metadata) bool {
	s := server{secret: secret{Metadata: m}}
	return s.readState() == nil && s.state.Phase == phaseSuspended
}
