package kubernetes

import (
	"context"
	"fmt"
	"reflect"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
)

// resizeGroup is Resize for a group: the volumes grow, and then the members are restarted one after the other. The size
// is recorded before that, so that a member which is replaced meanwhile has it.
func (l *Launcher) resizeGroup(ctx context.Context, s *server, spec launcher.Spec,
	report func(string)) (launcher.Endpoint, error) {
	if s.state.Phase != phaseReady {
		return launcher.Endpoint{}, fmt.Errorf("server %s: cannot resize what was not launched", s.id)
	}
	if spec.Members != len(s.state.Group.Members) {
		return launcher.Endpoint{}, &launcher.Error{Action: launcher.GiveUp,
			Sentence: "The number of servers cannot be changed.",
			Err: fmt.Errorf("server %s: it has %d members, and %d are wanted", s.id, len(s.state.Group.Members),
				spec.Members)}
	}
	next := sizeOf(spec)
	next.ClaimMB = max(s.state.ClaimMB, spec.StorageMB)
	begun := s.state.Resize
	if (begun == nil || !begun.Recorded) && reflect.DeepEqual(next, s.state.size) {
		// A broker that was paused could begin to resize it. One that has begun has changed volumes at most.
		if err := l.changeWork(ctx, s, func(s *server) { s.state.Resize = nil }); err != nil {
			return launcher.Endpoint{}, err
		}
		return l.bringUp(ctx, s, spec)
	}
	report("Changing the servers' size")
	if ctx.Err() != nil { // the report may have found that another has the work now
		return launcher.Endpoint{}, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
	}
	if begun == nil || !reflect.DeepEqual(next, begun.size) {
		if err := l.changeWork(ctx, s, func(s *server) { s.state.Resize = resizeTo(next, begun) }); err != nil {
			return launcher.Endpoint{}, err
		}
		fault.Point("resize", "recorded")
	}
	if !s.state.Resize.Recorded {
		if err := l.growVolumes(ctx, s); err != nil {
			return launcher.Endpoint{}, err
		}
		fault.Point("resize", "volume grown")
		if err := l.changeWork(ctx, s, func(s *server) {
			s.state.size, s.state.Resize.Recorded = s.state.Resize.size, true
			s.state.Group = s.state.Group.rolled()
			l.writeSettings(s)
		}); err != nil {
			return launcher.Endpoint{}, err
		}
		fault.Point("resize", "settings changed")
	}
	if err := l.roll(ctx, s, true); err != nil {
		return launcher.Endpoint{}, err
	}
	if err := l.changeWork(ctx, s, func(s *server) { s.state.Resize = nil }); err != nil {
		return launcher.Endpoint{}, err
	}
	return l.bringUp(ctx, s, spec)
}

// growVolumes returns once the volumes of all members have the size that they are to have, or grow when the members are
// restarted.
func (l *Launcher) growVolumes(ctx context.Context, s *server) error {
	next := s.state.Resize
	if next.ClaimMB <= s.state.ClaimMB && next.TriedMB == 0 {
		return nil
	}
	for _, m := range s.members() {
		m.state.size = next.size
		if _, err := l.growVolume(ctx, m); err != nil {
			return err
		}
	}
	return nil
}
