package kubernetes

import (
	"context"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
)

// namesOf is the headless Service that gives the members of a group their names, also before they are ready.
func namesOf(s *server) service {
	m := s.metadata()
	m.Name = s.of(1).governor()
	return service{APIVersion: "v1", Kind: "Service", Metadata: m, Spec: serviceSpec{Type: "ClusterIP", ClusterIP: "None",
		Selector: s.selector(), PublishNotReadyAddresses: true, Ports: []servicePort{
			{Name: portName, Port: port, TargetPort: portName},
			{Name: groupPortName, Port: groupPort, TargetPort: groupPortName}}}}
}

// budgetOf lets nodes be drained one after the other.
func budgetOf(s *server) budget {
	return budget{APIVersion: "policy/v1", Kind: "PodDisruptionBudget", Metadata: s.metadata(),
		Spec: budgetSpec{MaxUnavailable: 1, Selector: labelSelector{MatchLabels: s.selector()}}}
}

// leadingTo is the Service of a group for applications, which leads to a member, counted from 1. If that is not the
// primary any more, the member refuses them.
func (l *Launcher) leadingTo(s *server, member int) service {
	to := l.serviceOf(s)
	to.Spec.Selector = s.of(member).selector()
	return to
}

// makeGroup creates or corrects all objects of a group but the Secret, and returns NotYet.
func (l *Launcher) makeGroup(ctx context.Context, s *server) error {
	if err := l.api.apply(ctx, l.api.path(services, s.of(1).governor()), namesOf(s), nil); err != nil {
		return err
	}
	if err := l.api.apply(ctx, l.api.path(budgets, s.name), budgetOf(s), nil); err != nil {
		return err
	}
	var primary service
	err := l.api.get(ctx, l.api.path(services, s.name), &primary)
	if isNotFound(err) { // one that is there leads to the primary
		err = l.api.apply(ctx, l.api.path(services, s.name), l.leadingTo(s, 1), nil)
	}
	if err != nil {
		return err
	}
	fault.Point("launch", "address made")
	for _, m := range s.members() {
		if err := l.makeMember(ctx, m); err != nil {
			return err
		}
		fault.Point("launch", "member ordered")
	}
	return launcher.NotYet(minPoll, "Waiting for nodes")
}

// makeMember creates or corrects the objects of a member.
func (l *Launcher) makeMember(ctx context.Context, m *server) error {
	if _, err := l.applyClaim(ctx, m); err != nil {
		return err
	}
	if err := l.api.apply(ctx, l.api.path(services, m.workName()), l.serviceOf(m), nil); err != nil {
		return err
	}
	var set statefulSet
	if err := l.applyWork(ctx, m, &set); err != nil {
		return err
	}
	return l.whyNoPod(ctx, m, set)
}

// leadTo has the Service of a group lead to a member. known is the Service as it was before the members were asked
// which one is the primary, so that a broker that was paused since then changes nothing.
func (l *Launcher) leadTo(ctx context.Context, s *server, known *service, member int) error {
	selector := s.of(member).selector()
	if known.Spec.Selector[memberLabel] == selector[memberLabel] {
		return nil
	}
	change := map[string]any{"metadata": map[string]string{"uid": known.Metadata.UID,
		"resourceVersion": known.Metadata.ResourceVersion}, "spec": map[string]any{"selector": selector}}
	err := l.api.merge(ctx, l.api.path(services, s.name), change, known)
	if err == nil {
		l.cfg.Logger.Info("applications are led to another member of a group", "server", s.id, "member",
			s.of(member).at())
	}
	return err
}
