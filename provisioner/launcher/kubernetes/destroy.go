package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

// destroyTime limits how long Destroy waits until all objects are gone, which usually takes one to three seconds. The
// cluster continues without the broker.
const destroyTime = 30 * time.Second

// Destroy implements launcher.Launcher. The volume may be free a moment later. If somebody has deleted the Secret and
// not what it owned, Destroy creates it again, so that it can delete the rest.
func (l *Launcher) Destroy(ctx context.Context, id string) error {
	may := func(*server) (*api.Preconditions, error) { return nil, nil }
	for {
		if err := l.destroy(ctx, id, may); err != nil {
			return err
		}
		if left, err := l.createOwner(ctx, id); err != nil || !left {
			return err
		}
	}
}

// createOwner creates the Secret of a server that is destroyed, and of which objects are left.
func (l *Launcher) createOwner(ctx context.Context, id string) (left bool, err error) {
	name, err := objectName(id)
	if err != nil {
		return false, err
	}
	s := &server{id: id, name: name, state: state{Phase: phaseLaunching}} // so that DestroyUnused removes it as well
	err = l.run.eachObject(ctx, s, func(_, _ string, m api.Metadata) error {
		left = left || s.made(m)
		return nil
	})
	if err == nil && !left {
		var p api.Pod
		p, _, err = l.run.pod(ctx, s)
		left = p.Mounts(name)
	}
	if err != nil || !left {
		return false, err
	}
	s.secret = api.Secret{APIVersion: "v1", Kind: "Secret", Metadata: api.Metadata{Name: name, Labels: labelsOf(id)}}
	s.writeState()
	err = l.secrets.api.Create(ctx, l.secrets.api.Path(api.Secrets), s.secret, nil)
	if err != nil && !api.IsConflict(err) {
		return false, err
	}
	return true, nil
}

// made reports whether an object under the server's name is the broker's. Restores and clients may drop the managers of
// an object, which say who made it, or its labels.
func (s *server) made(m api.Metadata) bool {
	return !m.AppliedAt().IsZero() || m.Labels[managedByLabel] == managedBy && m.Labels[serverLabel] == s.id
}

// own makes the Secret the owner of all objects of the server again, if somebody has removed that.
func (o objects) own(ctx context.Context, s *server) error {
	return o.eachObject(ctx, s, func(kind, name string, m api.Metadata) error {
		owned := func(r api.OwnerReference) bool { return r.UID == s.secret.Metadata.UID }
		if slices.ContainsFunc(m.OwnerReferences, owned) || !s.made(m) {
			return nil
		}
		change := map[string]any{"metadata": api.Metadata{UID: m.UID, OwnerReferences: s.owner()}}
		err := o.api.StrategicMerge(ctx, o.api.Path(kind, name), change, nil)
		if api.IsNotFound(err) || api.IsConflict(err) {
			return nil
		}
		return err
	})
}

// DestroyUnused implements launcher.Launcher.
func (l *Launcher) DestroyUnused(ctx context.Context, id string) error {
	return l.destroy(ctx, id, func(s *server) (*api.Preconditions, error) {
		if err := s.readState(); err != nil { // it does not say either whether the server is kept
			return nil, err
		}
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
		gone := errors.Is(err, launcher.ErrNotFound)
		if gone && pause == minPoll { // nothing says of a pod that is left whether the server is kept
			l.run.up.Delete(id)
			return nil
		}
		if s == nil {
			if pause > minPoll && errors.Is(ctx.Err(), context.DeadlineExceeded) { // the time was over within a request
				return l.stays(ctx, id)
			}
			return err
		}
		if gone || !s.secret.Metadata.DeletionTimestamp.IsZero() {
			there, err := l.run.endPodOf(ctx, s, func() error { return nil })
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("server %s: %w", id, err)
			}
			if err == nil && gone && !there {
				l.run.up.Delete(id)
				return nil
			}
		} else {
			condition, err := may(s)
			if err != nil {
				return err
			}
			fault.Point("destroy", "looked")
			if err := l.run.own(ctx, s); err != nil {
				return fmt.Errorf("server %s: %w", id, err)
			}
			err = l.secrets.api.Delete(ctx, l.secrets.api.Path(api.Secrets, s.name),
				api.DeleteOptions{PropagationPolicy: "Foreground", Preconditions: condition})
			fault.Point("destroy", "deleted")
			if err != nil && !api.IsNotFound(err) && !api.IsConflict(err) {
				return fmt.Errorf("server %s: %w", id, err)
			}
		}
		select {
		case <-ctx.Done():
			return l.stays(ctx, id)
		case <-time.After(pause):
		}
	}
}

// stays says which objects are left of a server when the time is over, whose finalizers hold them, and what refuses
// their deletion.
func (l *Launcher) stays(ctx context.Context, id string) error {
	waited := fmt.Errorf("server %s: wait until it is removed: %w", id, context.Cause(ctx))
	name, err := objectName(id)
	if err != nil {
		return err
	}
	if errors.Is(ctx.Err(), context.Canceled) { // the broker stops, or another one continues
		return waited
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), staysTime)
	defer cancel()
	s := &server{id: id, name: name}
	var left []string
	add := func(kind, name string, m api.Metadata) error {
		object := kind + " " + name
		foreign := slices.DeleteFunc(m.Finalizers, func(f string) bool { return ofCluster[f] })
		if len(foreign) > 0 {
			object += " (held by " + strings.Join(foreign, ", ") + ")"
		}
		if kind == api.Claims || kind == api.Pods { // that the broker may delete: a policy may refuse it to the cluster too
			ctx, cancel := context.WithTimeout(ctx, staysTime/4)
			defer cancel()
			if err := l.secrets.api.TryDelete(ctx, l.secrets.api.Path(kind, name)); err != nil {
				object += " (" + err.Error() + ")"
			}
		}
		left = append(left, object)
		return nil
	}
	p, there, err := l.run.pod(ctx, s)
	if there {
		err = add(api.Pods, s.podName(), p.Metadata)
	}
	if err == nil {
		err = l.run.eachObject(ctx, s, add)
	}
	if err != nil || len(left) == 0 {
		return waited
	}
	return fmt.Errorf("%w; left: %s", waited, strings.Join(left, ", "))
}

const staysTime = 4 * time.Second // to see what is left

// ofCluster are the finalizers that the cluster itself removes.
var ofCluster = map[string]bool{"kubernetes.io/pvc-protection": true, "foregroundDeletion": true,
	"service.kubernetes.io/load-balancer-cleanup": true}

// errStays is not final: the server's node may be lost, and then Kubernetes waits for it.
var errStays = fmt.Errorf("its objects are still there after %v; its node may be lost", destroyTime)
