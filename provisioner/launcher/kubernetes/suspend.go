package kubernetes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqlgroup"
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
	var p api.Pod
	err := l.api.Get(ctx, l.api.Path(api.Pods, s.podName()), &p)
	if api.IsNotFound(err) {
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
func isSuspended(m api.Metadata) bool {
	s := server{secret: api.Secret{Metadata: m}}
	return s.readState() == nil && s.state.Phase == phaseSuspended
}

// stopMembers is stopPod for a group: the primary stops last, and then has all transactions.
func (l *Launcher) stopMembers(ctx context.Context, s *server) error {
	l.groups.Delete(s.id)
	primary := mysqlgroup.Primary(l.lookAtMembers(ctx, s))
	var waits error
	for n, m := range s.members() {
		if n == primary {
			continue
		}
		err := l.stopPod(ctx, m)
		if e, ok := errors.AsType[*launcher.Error](err); ok && e.Action == launcher.Wait {
			waits = err
		} else if err != nil {
			return err
		}
	}
	if waits != nil || primary < 0 {
		return waits
	}
	if err := l.stopEvents(ctx, s.of(primary+1)); err != nil {
		return err
	}
	return l.stopPod(ctx, s.of(primary+1))
}

// stopEvents is due before the primary of a group stops. A broker that was paused does not do it to a server
// that has started since: it has lost its session, or looks again at what is recorded.
func (l *Launcher) stopEvents(ctx context.Context, m *server) error {
	var stale error
	err := l.onLocked(ctx, m, func(ctx context.Context, conn *sql.Conn, _ mysqlgroup.Look) error {
		if stale = l.expectWork(ctx, m); stale != nil {
			return nil
		}
		return mysqlgroup.StopEvents(ctx, conn)
	})
	if err != nil && stale == nil && !lost(err) { // it stops already
		l.cfg.Logger.Warn("a member that stops may still run events", "server", m.id, "error", err)
	}
	return stale
}
