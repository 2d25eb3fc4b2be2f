package kubernetes

import (
	"context"

	"mysql-broker/provisioner/launcher"
)

// trialOwner stands for the UID of the Secret that a trial does not create.
const trialOwner = "00000000-0000-4000-8000-000000000000"

// Try implements launcher.Checker. The API server checks the objects of the server, also against quotas and policies,
// and stores none of them. It does not check whether a storage class exists or a node fits.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
func (l *Launcher) Try(ctx context.Context, spec launcher.Spec) (err error) {
	defer func() { err = explain(err) }()
	image, err := l.imageOf(spec)
	if err != nil {
		return err
	}
	name, err := objectName(spec.ID)
	if err != nil {
		return err
	}
	s := &server{id: spec.ID, name: name, state: l.newState(spec, image)}
	s.secret.Metadata.UID = trialOwner
	for _, m := range s.members() {
		if err := l.tryWork(ctx, m); err != nil {
			return err
		}
	}
	if s.state.Group == nil {
		return l.tryWork(ctx, s)
	}
	if err := l.api.tryApply(ctx, l.api.path(services, s.of(1).governor()), namesOf(s)); err != nil {
		return err
	}
	return l.api.tryApply(ctx, l.api.path(budgets, name), budgetOf(s))
}

// tryWork is Try for a single server, or for a member of a group.
func (l *Launcher) tryWork(ctx context.Context, s *server) error {
	for _, o := range []struct {
		kind   string
		object any
	}{{claims, l.claimOf(s)}, {services, l.serviceOf(s)}, {statefulSets, l.statefulSetOf(s)}} {
		if err := l.api.tryApply(ctx, l.api.path(o.kind, s.workName()), o.object); err != nil {
			return err
		}
	}
	return nil
}
