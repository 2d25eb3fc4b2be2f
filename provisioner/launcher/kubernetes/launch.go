package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqld"
)

// Launch implements launcher.Launcher. If the server exists, Launch keeps its limits and creates its missing objects,
// but not the volume of a server that was ready: that had the data.
func (l *Launcher) Launch(ctx context.Context, spec launcher.Spec,
	report func(progress string)) (_ launcher.Endpoint, err error) {
	defer func() { err = explain(err) }()
	image, err := l.cfg.offered(spec)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	s, err := l.secrets.load(ctx, spec.ID)
	if errors.Is(err, launcher.ErrNotFound) {
		s, err = l.begin(ctx, s, spec, image, report)
	}
	if err != nil {
		return launcher.Endpoint{}, err
	}
	if !s.secret.Metadata.DeletionTimestamp.IsZero() {
		return launcher.Endpoint{}, launcher.NotYet(time.Second, "Waiting until an earlier server is removed")
	}
	if s.state.Phase == phaseLaunching {
		if err := s.expectLabels(api.Secrets, s.secret.Metadata); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	if err := l.run.makeFiles(ctx, s, spec, s.state.Host); err != nil {
		return launcher.Endpoint{}, err
	}
	if err := (upgrader{l.run, s, ignored}).abandon(ctx); err != nil {
		return launcher.Endpoint{}, err
	}
	if s.state.Phase == phaseSuspended {
		if err := l.run.resume(ctx, s, spec); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	return l.run.bringUp(ctx, s, spec)
}

// offered returns the image for a server. It refuses names and passwords that would need escaping in SQL.
func (c Config) offered(spec launcher.Spec) (Image, error) {
	if err := mysqld.CheckAdmin(spec.AdminUser, spec.AdminPassword); err != nil {
		return Image{}, fmt.Errorf("server %s: %w", spec.ID, err)
	}
	newest, found := launcher.Newest(c.versions(), spec.Flavour, spec.Version)
	if !found {
		return Image{}, &launcher.Error{Action: launcher.GiveUp, Sentence: noServers,
			Err: fmt.Errorf("server %s: there is no image of %s %s", spec.ID, spec.Flavour, spec.Version)}
	}
	i := slices.Index(c.versions(), newest)
	return c.Images[i], nil
}

// begin creates the Secret, which records what the server is to be. Its key follows once the address is known.
func (l *Launcher) begin(ctx context.Context, s *server, spec launcher.Spec, image Image,
	report func(string)) (*server, error) {
	report("Creating the server's volume and address")
	if ctx.Err() != nil { // the report may have found that another has the work now, and it may have destroyed the server
		return nil, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
	}
	s = l.cfg.newServer(s.id, s.name, spec, image)
	fault.Point("launch", "state made")
	var made api.Secret // not s.secret, which would keep labels that the API server has removed
	err := l.secrets.api.Create(ctx, l.secrets.api.Path(api.Secrets), s.secret, &made)
	if api.IsConflict(err) { // another broker was faster, or the response to a first attempt was lost
		return nil, launcher.NotYet(minPoll, "Waiting for a node")
	}
	if err != nil {
		return nil, err
	}
	s.secret = made
	wrong := s.expectLabels(api.Secrets, s.secret.Metadata)
	if wrong != nil { // a later removal might not find it; another broker may have continued with it
		m := s.secret.Metadata
		err = l.secrets.api.Delete(ctx, l.secrets.api.Path(api.Secrets, s.name),
			api.DeleteOptions{Preconditions: &api.Preconditions{UID: m.UID, ResourceVersion: m.ResourceVersion}})
		if err != nil && !api.IsNotFound(err) && !api.IsConflict(err) {
			return nil, errors.Join(wrong, err)
		}
	}
	return s, wrong
}

// newServer is a new server with its Secret, which is not created yet.
func (c Config) newServer(id, name string, spec launcher.Spec, image Image) *server {
	s := &server{id: id, name: name, state: c.newState(spec, image)}
	s.secret = api.Secret{APIVersion: "v1", Kind: "Secret", Data: map[string][]byte{},
		Metadata: api.Metadata{Name: name, Labels: labelsOf(id), Annotations: map[string]string{}}}
	for key, value := range spec.Labels {
		s.secret.Metadata.Annotations[labelPrefix+key] = value
	}
	s.addFiles(spec.AdminPassword)
	s.writeState()
	return s
}

// newState is the state of a new server.
func (c Config) newState(spec launcher.Spec, image Image) state {
	st := state{Phase: phaseLaunching, Flavour: image.Flavour, Version: image.Version, Image: image.Name,
		AdminUser: spec.AdminUser, Class: c.StorageClass, size: sizeOf(spec)}
	if spec.Placement != nil && spec.Placement.StorageClass != "" {
		st.Class = spec.Placement.StorageClass
	}
	return st
}

// sizeOf is the size of a new server.
func sizeOf(spec launcher.Spec) size {
	return size{MemoryMB: spec.MemoryMB, MilliCPU: spec.MilliCPU, StorageMB: spec.StorageMB, ClaimMB: spec.StorageMB,
		BinaryLogs: spec.BinaryLogs, Placement: spec.Placement}
}

// Suspend implements launcher.Launcher. The StatefulSet stays, without a pod; so do the volume and the address. If the
// volume is gone, Suspend only stops the pod.
func (l *Launcher) Suspend(ctx context.Context, id string) (err error) {
	defer func() { err = explain(err) }()
	s, err := l.secrets.find(ctx, id)
	if err == nil && s.state.Phase == phaseLaunching {
		err = launcher.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("server %s: %w", id, err)
	}
	if s.state.Phase != phaseSuspended {
		_, err := l.run.volume(ctx, s)
		if err == nil {
			err = (upgrader{l.run, s, ignored}).abandon(ctx)
		}
		if err != nil && !errors.Is(err, errVolumeGone) {
			return err
		}
		if err := l.run.beginWork(ctx, s, true, func(s *server) {
			s.state.Phase, s.state.Upgrade = phaseSuspended, nil
		}); err != nil {
			return err
		}
		fault.Point("suspend", "recorded")
	}
	if err := l.run.stopPod(ctx, s); err != nil {
		return err
	}
	_, err = l.run.volume(ctx, s)
	if errors.Is(err, errVolumeGone) {
		return fmt.Errorf("server %s: %w: %w", id, errVolumeGone, launcher.ErrNotFound)
	}
	return err
}

// stopPod returns NotYet until a suspended server has no pod.
func (r *runner) stopPod(ctx context.Context, s *server) error {
	if err := r.applyWork(ctx, s, nil); err != nil {
		return err
	}
	r.up.Delete(s.id)
	there, err := r.endPodOf(ctx, s, func() error { return r.expectWork(ctx, s) })
	if err != nil || !there {
		return err
	}
	return launcher.NotYet(minPoll, "Stopping mysqld")
}

// resume makes a suspended server one that is to run, with the spec's limits and nodes.
func (r *runner) resume(ctx context.Context, s *server, spec launcher.Spec) error {
	if err := r.stopPod(ctx, s); err != nil { // a Suspend may have been cut off
		return err
	}
	return r.beginWork(ctx, s, false, func(s *server) {
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
