package kubernetes

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

// Suspend implements launcher.Launcher. The StatefulSet stays, without a pod; so do the volume and the address.
func (l *Launcher) Suspend(ctx context.Context, id string) (err error) {
	defer func() { err = explain(err) }()
	s, err := l.secrets.find(ctx, id)
	if err == nil && s.state.Phase == phaseLaunching {
		err = launcher.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("server %s: %w", id, err)
	}
	if err := (upgrader{l.run, s, ignored}).abandon(ctx); err != nil {
		return err
	}
	if s.state.Phase == phaseReady {
		if err := l.secrets.changeWork(ctx, s, func(s *server) { s.state.Phase = phaseSuspended }); err != nil {
			return err
		}
		fault.Point("suspend", "recorded")
	}
	return l.run.stopPod(ctx, s)
}

// stopPod returns NotYet until a suspended server has no pod.
func (r *runner) stopPod(ctx context.Context, s *server) error {
	if err := r.applyWork(ctx, s, nil); err != nil {
		return err
	}
	r.up.Delete(s.id)
	if _, there, err := r.pod(ctx, s); err != nil || !there {
		return err
	}
	return launcher.NotYet(minPoll, "Stopping mysqld")
}

// resume makes a suspended server one that is to run, with the spec's limits and nodes.
func (r *runner) resume(ctx context.Context, s *server, spec launcher.Spec) error {
	if err := r.stopPod(ctx, s); err != nil { // a Suspend may have been cut off
		return err
	}
	return r.changeWork(ctx, s, func(s *server) {
		s.state.Phase, s.state.Resize = phaseReady, nil
		claim := s.state.ClaimMB
		s.state.size = sizeOf(spec)
		s.state.ClaimMB = claim
		s.writeSettings()
		for key, value := range spec.Labels {
			s.secret.Metadata.Annotations[labelPrefix+key] = value
		}
	})
}

// isSuspended reports whether a server is suspended, from the metadata of its Secret.
func isSuspended(m api.Metadata) bool {
	s := server{secret: api.Secret{Metadata: m}}
	return s.readState() == nil && s.state.Phase == phaseSuspended
}
