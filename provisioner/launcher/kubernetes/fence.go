package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

// A broker that was paused may continue after another one has finished or undone its work. What it does then must
// change nothing. So all work begins with a change of the Secret. A broker that begins, continues or ends work changes
// other objects only if they and, after that, the Secret are as it knows them.

// errStale is what a call of a broker that was paused ends with.
var errStale = errors.New("another broker has continued its work")

// sameWork returns an error if another broker has begun or ended some work on a server that was read before.
func (s *server) sameWork(known *server) error {
	if s.state.Works == known.state.Works && s.secret.Metadata.UID == known.secret.Metadata.UID {
		return nil
	}
	return fmt.Errorf("server %s: %w: it is %s", s.id, errStale, s.state.Phase)
}

// changeWork begins, continues or ends some work on a server: it changes the server's Secret unless another broker has
// done so since s was read.
func (c secrets) changeWork(ctx context.Context, s *server, change func(*server)) error {
	known, err := *s, error(nil)
	var sent string
	changed := c.change(ctx, s, func(s *server) {
		if sent != "" && s.secret.Metadata.Annotations[stateAnnotation] == sent {
			return // it was changed before, and the response was lost
		}
		if err = s.sameWork(&known); err == nil {
			change(s)
			s.state.Works = known.state.Works + 1
			s.writeState()
			sent = s.secret.Metadata.Annotations[stateAnnotation]
		}
	})
	if changed != nil {
		return changed
	}
	return err
}

// expectWork returns an error if another broker has begun or ended some work since s was read.
func (c secrets) expectWork(ctx context.Context, s *server) error {
	now, err := c.find(ctx, s.id)
	if err != nil {
		return err
	}
	return now.sameWork(s)
}

// objects are those of the servers besides the Secrets. A broker changes them only while it has the work.
type objects struct {
	secrets
	cfg Config
}

// beginWork is changeWork for what begins some work. Nothing is recorded if the API server would refuse what follows
// that: the StatefulSet, or, if the work ends the pod, its deletion.
func (o objects) beginWork(ctx context.Context, s *server, endsPod bool, change func(*server)) error {
	next := *s
	next.secret.Data = maps.Clone(s.secret.Data)
	next.secret.Metadata.Annotations = maps.Clone(s.secret.Metadata.Annotations)
	change(&next)
	next.state.Works++
	err := o.api.TryApply(ctx, o.api.Path(api.StatefulSets, s.name), o.cfg.statefulSetOf(&next), nil)
	if err == nil && endsPod {
		err = o.api.TryDelete(ctx, o.api.Path(api.Pods, s.podName()))
	}
	if err != nil {
		return fmt.Errorf("server %s: %w", s.id, err)
	}
	return o.changeWork(ctx, s, change)
}

// applyWork applies the StatefulSet, unless another broker has continued the work since s was read. That broker's
// template must not be replaced by an older one, so the StatefulSet must be as it was before the Secret was read again.
// into, which may be nil, gets the StatefulSet.
func (o objects) applyWork(ctx context.Context, s *server, into any) error {
	path := o.api.Path(api.StatefulSets, s.name)
	var known api.StatefulSet
	if s.state.Host != "" { // else the server was never ready, and usually has none
		err := o.api.Merge(ctx, path, struct{}{}, &known) // changes nothing; the broker has no right to get StatefulSets
		if err != nil && !api.IsNotFound(err) {
			return err
		}
		if err := o.expectWork(ctx, s); err != nil {
			return err
		}
	}
	set := o.cfg.statefulSetOf(s)
	set.Metadata.ResourceVersion = known.Metadata.ResourceVersion
	err := o.api.Apply(ctx, path, set, into)
	if api.IsConflict(err) { // also if the cluster has reported on its pod
		return launcher.NotYet(minPoll, "Waiting for the server's pod")
	}
	if err != nil || set.Metadata.ResourceVersion != "" {
		return err
	}
	return o.mendWork(ctx, s)
}

// applyService creates the Service, or corrects one that somebody has changed or that was made for another plan. It
// changes nothing if another broker has continued the work since s was read.
func (o objects) applyService(ctx context.Context, s *server) (present api.Service, err error) {
	path, wanted := o.api.Path(api.Services, s.name), o.cfg.serviceOf(s)
	err = o.api.Get(ctx, path, &present)
	if err == nil && serves(present, wanted) || err != nil && !api.IsNotFound(err) {
		return present, err
	}
	if err := o.expectWork(ctx, s); err != nil {
		return present, err
	}
	wanted.Metadata.ResourceVersion = present.Metadata.ResourceVersion
	err = o.api.Apply(ctx, path, wanted, &present)
	if api.IsConflict(err) {
		return present, launcher.NotYet(minPoll, "Waiting for the server's address")
	}
	return present, err
}

// serves reports whether a Service leads where it is wanted to lead, and is described so. Others may have added to it.
func serves(present, wanted api.Service) bool {
	leads := func(p api.ServicePort) bool {
		w := wanted.Spec.Ports[0]
		return p.Port == w.Port && p.TargetPort == w.TargetPort && (p.NodePort == w.NodePort || w.NodePort == 0)
	}
	return maps.Equal(present.Spec.Selector, wanted.Spec.Selector) && slices.ContainsFunc(present.Spec.Ports, leads) &&
		hasAll(present.Metadata.Labels, wanted.Metadata.Labels) &&
		hasAll(present.Metadata.Annotations, wanted.Metadata.Annotations)
}

func hasAll(all, wanted map[string]string) bool {
	for key, value := range wanted {
		if there, ok := all[key]; !ok || there != value {
			return false
		}
	}
	return true
}

// mendWork is called after the StatefulSet was applied without a condition, as none holds for an object that is
// created. If another broker has continued the work meanwhile, mendWork applies what that one wants.
func (o objects) mendWork(ctx context.Context, s *server) error {
	for {
		now, err := o.find(ctx, s.id)
		if err != nil {
			return err
		}
		stale := now.sameWork(s)
		if stale == nil {
			return nil
		}
		err = o.applyWork(ctx, now, nil)
		if _, again := errors.AsType[*launcher.Error](err); !again || ctx.Err() != nil {
			return errors.Join(stale, err)
		}
		time.Sleep(conflictPause)
	}
}

// expectNoForeign returns an error if somebody else has made an object under the name of a new server's. The launcher
// would write to it, and delete it with the server.
func (o objects) expectNoForeign(ctx context.Context, s *server, p api.Pod, there bool) error {
	foreign := func(kind, name string) error {
		return &launcher.Error{Action: launcher.GiveUp, Sentence: noServers,
			Err: fmt.Errorf("server %s: there is an object %s %s that is not the broker's", s.id, kind, name)}
	}
	if p.Mounts(s.name) {
		return nil
	}
	if err := o.eachObject(ctx, s, func(kind, name string, m api.Metadata) error {
		if !s.made(m) {
			return foreign(kind, name)
		}
		return nil
	}); err != nil || !there {
		return err
	}
	return foreign(api.Pods, s.podName())
}

// eachObject calls each with the metadata of the objects of a server besides its Secret and pod, as far as they exist.
func (o objects) eachObject(ctx context.Context, s *server, each func(kind, name string, m api.Metadata) error) error {
	for _, at := range [][2]string{{api.Claims, s.name}, {api.Claims, s.copyName()}, {api.Services, s.name},
		{api.StatefulSets, s.name}} {
		var found struct{ Metadata api.Metadata }
		var err error
		if path := o.api.Path(at[0], at[1]); at[0] == api.StatefulSets {
			err = o.api.Merge(ctx, path, struct{}{}, &found) // changes nothing; the broker has no right to get StatefulSets
		} else {
			err = o.api.Get(ctx, path, &found)
		}
		if api.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = each(at[0], at[1], found.Metadata)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pod reads a server's pod, if there is one.
func (o objects) pod(ctx context.Context, s *server) (p api.Pod, there bool, err error) {
	err = o.api.Get(ctx, o.api.Path(api.Pods, s.podName()), &p)
	if api.IsNotFound(err) {
		return p, false, nil
	}
	return p, err == nil, err
}

// deletePod deletes the pod with that UID, and no later one of its name, unless another broker has continued the work.
func (o objects) deletePod(ctx context.Context, s *server, uid string) error {
	if _, err := o.volume(ctx, s); err != nil {
		return err
	}
	if err := o.expectWork(ctx, s); err != nil {
		return err
	}
	return o.removePod(ctx, s, uid)
}

func (o objects) removePod(ctx context.Context, s *server, uid string) error {
	err := o.api.Delete(ctx, o.api.Path(api.Pods, s.podName()),
		api.DeleteOptions{Preconditions: &api.Preconditions{UID: uid}})
	if api.IsNotFound(err) || api.IsConflict(err) {
		return nil
	}
	return err
}

// endPodOf reports whether a server that is to have no pod has one. If somebody has removed the pod's label, its
// StatefulSet has released it, and nothing in the cluster ends it: endPodOf deletes it unless may returns an error.
func (o objects) endPodOf(ctx context.Context, s *server, may func() error) (there bool, err error) {
	p, there, err := o.pod(ctx, s)
	if err != nil || !there || !p.Mounts(s.name) {
		return false, err
	}
	if len(p.Metadata.OwnerReferences) == 0 && p.Metadata.DeletionTimestamp.IsZero() {
		if err = may(); err == nil {
			err = o.removePod(ctx, s, p.Metadata.UID)
		}
	}
	return true, err
}
