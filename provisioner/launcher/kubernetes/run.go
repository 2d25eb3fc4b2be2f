package kubernetes

import (
	"context"
	"sync"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

// runner starts and stops the servers' pods.
type runner struct {
	objects
	up sync.Map // ids of servers to the container that let the administrator in
}

// bringUp creates missing objects, and returns an endpoint once the administrator can log in.
func (r *runner) bringUp(ctx context.Context, s *server, spec launcher.Spec) (launcher.Endpoint, error) {
	p, there, err := r.pod(ctx, s)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	if s.state.Phase == phaseLaunching {
		if err := r.expectNoForeign(ctx, s, p, there); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	if !there {
		return launcher.Endpoint{}, r.makeObjects(ctx, s, spec)
	}
	wrong := s.expectLabels(api.Pods, p.Metadata)
	relabelled := wrong != nil && p.Mounts(s.name) && r.leaving(p) == ""
	switch {
	case p.Metadata.Annotations[workAnnotation] != "", relabelled && mysqldOf(p).State.Running != nil:
		return launcher.Endpoint{}, r.endPod(ctx, s, p)
	case relabelled: // the cluster changes the labels of new pods
		return launcher.Endpoint{}, wrong
	}
	if err := r.lookAt(s, p); err != nil {
		return launcher.Endpoint{}, err
	}
	address, err := r.applyService(ctx, s)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	before := s.state
	r.cfg.setEndpoint(s, address)
	if err := r.login(ctx, s, spec, p); err != nil {
		return launcher.Endpoint{}, err
	}
	r.up.Store(s.id, mysqldOf(p).ContainerID)
	fault.Point("launch", "answers")
	s.state.Phase = phaseReady
	if s.state != before {
		after := s.state
		if err := r.change(ctx, s, func(s *server) {
			if s.state.Phase == before.Phase {
				s.state.Phase = after.Phase
			}
			s.state.Host, s.state.Port = after.Host, after.Port
			s.state.AdminHost, s.state.AdminPort = after.AdminHost, after.AdminPort
			if before.Phase != phaseReady { // nothing has renewed the certificate that mysqld started with
				s.secret.Metadata.Annotations[loadedAnnotation] = s.secret.Metadata.Annotations[certificateAnnotation]
			}
		}); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	return s.endpoint(), nil
}

// makeObjects creates or corrects all objects but the Secret, and returns NotYet.
func (r *runner) makeObjects(ctx context.Context, s *server, spec launcher.Spec) error {
	if _, err := r.applyClaim(ctx, s); err != nil {
		return err
	}
	fault.Point("launch", "volume claimed")
	address, err := r.applyService(ctx, s)
	if err != nil {
		return err
	}
	fault.Point("launch", "address made")
	host, _ := r.cfg.publicAddress(s, address)
	if host == "" {
		return launcher.NotYet(time.Second, "Waiting for the load balancer's address")
	}
	if err := r.makeFiles(ctx, s, spec, host); err != nil {
		return err
	}
	var set api.StatefulSet
	if err := r.applyWork(ctx, s, &set); err != nil {
		return err
	}
	fault.Point("launch", "pod ordered")
	if err := r.whyNoPod(ctx, s, set); err != nil {
		return err
	}
	return launcher.NotYet(minPoll, "Waiting for a node")
}

// endPod replaces a pod that somebody has relabelled, or that of an upgrade that has ended, by one that runs the
// server, and returns NotYet.
func (r *runner) endPod(ctx context.Context, s *server, p api.Pod) error {
	if err := r.applyWork(ctx, s, nil); err != nil {
		return err
	}
	if sentence := r.leaving(p); sentence != "" {
		return r.poll(p.Metadata.CreationTimestamp, sentence)
	}
	if err := r.deletePod(ctx, s, p.Metadata.UID); err != nil {
		return err
	}
	return launcher.NotYet(minPoll, "Starting the server")
}
