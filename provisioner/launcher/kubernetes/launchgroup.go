package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqlgroup"
)

// groupPoll is how often a group that is being launched is looked at.
const groupPoll = 500 * time.Millisecond

// bringUpGroup is bringUp for a group. A new one is ready once all members are online, any other once it has a primary.
func (l *Launcher) bringUpGroup(ctx context.Context, s *server, spec launcher.Spec) (launcher.Endpoint, error) {
	for _, m := range s.members() {
		var p api.Pod
		err := l.api.Get(ctx, l.api.Path(api.Pods, m.podName()), &p)
		if api.IsNotFound(err) {
			return launcher.Endpoint{}, l.makeGroup(ctx, s)
		}
		if err != nil {
			return launcher.Endpoint{}, err
		}
		if err := l.lookAt(m, p); err != nil && s.state.Phase == phaseLaunching {
			return launcher.Endpoint{}, err
		}
	}
	known, err := l.recordAddresses(ctx, s)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	all, err := l.assembleFor(ctx, s)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	primary := mysqlgroup.Primary(all)
	if primary < 0 || s.state.Phase == phaseLaunching && !mysqlgroup.AllOnline(all) {
		return launcher.Endpoint{}, launcher.NotYet(groupPoll, "Waiting until the servers form a group")
	}
	if err := l.leadTo(ctx, s, known, primary+1); err != nil {
		if api.IsConflict(err) {
			return launcher.Endpoint{}, launcher.NotYet(groupPoll, "Waiting for the servers' address")
		}
		return launcher.Endpoint{}, err
	}
	if err := l.login(ctx, s.of(primary+1), spec, api.Pod{}); err != nil {
		return launcher.Endpoint{}, err
	}
	fault.Point("launch", "group formed")
	address := l.addressFrom(s, *known)
	if s.state.Phase == phaseReady && s.address() == address {
		return s.endpoint(), nil
	}
	err = l.change(ctx, s, func(s *server) {
		s.state.setAddress(address)
		if s.state.Phase == phaseLaunching {
			s.state.Phase = phaseReady
			s.secret.Metadata.Annotations[loadedAnnotation] = s.secret.Metadata.Annotations[certificateAnnotation]
		}
	})
	return s.endpoint(), err
}

// recordAddresses records where the members of a group listen, and returns the Service that leads to the primary.
func (l *Launcher) recordAddresses(ctx context.Context, s *server) (*api.Service, error) {
	var primary api.Service
	if err := l.api.Get(ctx, l.api.Path(api.Services, s.name), &primary); err != nil {
		if api.IsNotFound(err) {
			err = l.makeGroup(ctx, s)
		}
		return nil, err
	}
	found := slices.Clone(s.state.Group.Members)
	for n, m := range s.members() {
		if found[n].Host != "" {
			continue
		}
		var own api.Service
		if err := l.api.Get(ctx, l.api.Path(api.Services, m.workName()), &own); err != nil {
			return nil, fmt.Errorf("server %s: %w", s.id, err)
		}
		found[n] = l.addressFrom(m, own)
	}
	if slices.Equal(found, s.state.Group.Members) {
		return &primary, nil
	}
	return &primary, l.change(ctx, s, func(s *server) {
		if s.state.Group != nil {
			with := *s.state.Group
			with.Members = found
			s.state.Group = &with
		}
	})
}
