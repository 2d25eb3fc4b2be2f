package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	mysqldimage "mysql-broker/deploy/mysqld-image"
	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqld"
)

// Launch implements launcher.Launcher. If the server exists, Launch creates its missing objects and keeps its limits.
func (l *Launcher) Launch(ctx context.Context, spec launcher.Spec,
	report func(progress string)) (_ launcher.Endpoint, err error) {
	defer func() { err = explain(err) }()
	image, err := l.imageOf(spec)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	s, err := l.load(ctx, spec.ID)
	if errors.Is(err, launcher.ErrNotFound) {
		s, err = l.begin(ctx, s, spec, image, report)
	}
	if err != nil {
		return launcher.Endpoint{}, err
	}
	if !s.secret.Metadata.DeletionTimestamp.IsZero() {
		return launcher.Endpoint{}, launcher.NotYet(time.Second, "Waiting until an earlier server is removed")
	}
	if err := l.abandonUpgrade(ctx, s, ignored); err != nil {
		return launcher.Endpoint{}, err
	}
	if s.state.Phase == phaseSuspended {
		if err := l.resume(ctx, s, spec); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	return l.bringUp(ctx, s, spec)
}

// imageOf returns the image for a server. It refuses names and passwords that would need escaping in SQL.
func (l *Launcher) imageOf(spec launcher.Spec) (Image, error) {
	if err := mysqld.CheckAdmin(spec.AdminUser, spec.AdminPassword); err != nil {
		return Image{}, fmt.Errorf("server %s: %w", spec.ID, err)
	}
	newest, found := launcher.Newest(l.Versions(), spec.Flavour, spec.Version)
	if !found {
		return Image{}, &launcher.Error{Action: launcher.GiveUp, Sentence: noServers,
			Err: fmt.Errorf("server %s: there is no image of %s %s", spec.ID, spec.Flavour, spec.Version)}
	}
	i := slices.Index(l.Versions(), newest)
	return l.cfg.Images[i], nil
}

// begin creates the Secret, which records what the server is to be.
func (l *Launcher) begin(ctx context.Context, s *server, spec launcher.Spec, image Image,
	report func(string)) (*server, error) {
	report("Creating the server's volume and address")
	if ctx.Err() != nil { // the report may have found that another has the work now, and it may have destroyed the server
		return nil, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
	}
	s.state = l.newState(spec, image)
	s.secret = api.Secret{APIVersion: "v1", Kind: "Secret",
		Metadata: api.Metadata{Name: s.name, Labels: labelsOf(s.id), Annotations: map[string]string{}},
		Data: map[string][]byte{
			prepareFile:    prepare(image.Flavour),
			initialiseFile: mysqldimage.Initialise,
		}}
	for key, value := range spec.Labels {
		s.secret.Metadata.Annotations[labelPrefix+key] = value
	}
	if host := l.knownHost(s); host != "" {
		if err := l.addKeys(ctx, s, l.certificateHosts(s, host)...); err != nil {
			return nil, err
		}
	}
	s.writeSettings()
	s.writeInit(spec.AdminPassword)
	s.writeState()
	fault.Point("launch", "state made")
	err := l.api.Create(ctx, l.api.Path(api.Secrets), s.secret, &s.secret)
	if api.IsConflict(err) { // another broker was faster, or the response to a first attempt was lost
		return nil, launcher.NotYet(minPoll, "Waiting for a node")
	}
	return s, err
}

// newState is the state of a new server.
func (l *Launcher) newState(spec launcher.Spec, image Image) state {
	st := state{Phase: phaseLaunching, Flavour: image.Flavour, Version: image.Version, Image: image.Name,
		AdminUser: spec.AdminUser, Class: l.cfg.StorageClass, size: sizeOf(spec)}
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

// bringUp creates missing objects, and returns an endpoint once the administrator can log in.
func (l *Launcher) bringUp(ctx context.Context, s *server, spec launcher.Spec) (launcher.Endpoint, error) {
	var p api.Pod
	err := l.api.Get(ctx, l.api.Path(api.Pods, s.podName()), &p)
	if api.IsNotFound(err) {
		return launcher.Endpoint{}, l.makeObjects(ctx, s)
	}
	if err != nil {
		return launcher.Endpoint{}, err
	}
	if p.Metadata.Annotations[workAnnotation] != "" {
		return launcher.Endpoint{}, l.endPod(ctx, s, p)
	}
	if err := l.lookAt(s, p); err != nil {
		return launcher.Endpoint{}, err
	}
	var address api.Service
	if err := l.api.Get(ctx, l.api.Path(api.Services, s.name), &address); err != nil {
		if api.IsNotFound(err) {
			return launcher.Endpoint{}, l.makeObjects(ctx, s)
		}
		return launcher.Endpoint{}, err
	}
	before := s.state
	l.setEndpoint(s, address)
	if err := l.login(ctx, s, spec, p); err != nil {
		return launcher.Endpoint{}, err
	}
	l.up.Store(s.id, mysqldOf(p).ContainerID)
	fault.Point("launch", "answers")
	s.state.Phase = phaseReady
	if s.state != before {
		after := s.state
		if err := l.change(ctx, s, func(s *server) {
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
func (l *Launcher) makeObjects(ctx context.Context, s *server) error {
	if _, err := l.applyClaim(ctx, s); err != nil {
		return err
	}
	fault.Point("launch", "volume claimed")
	var address api.Service
	if err := l.api.Apply(ctx, l.api.Path(api.Services, s.name), l.serviceOf(s), &address); err != nil {
		return err
	}
	fault.Point("launch", "address made")
	if len(s.secret.Data[keyFile]) == 0 {
		host, _ := l.publicAddress(s, address)
		if host == "" {
			return launcher.NotYet(time.Second, "Waiting for the load balancer's address")
		}
		if err := l.addKeys(ctx, s, l.certificateHosts(s, host)...); err != nil {
			return err
		}
		made := s.secret
		if err := l.change(ctx, s, func(s *server) {
			if len(s.secret.Data[keyFile]) == 0 {
				s.secret.Data = made.Data
				maps.Copy(s.secret.Metadata.Annotations, made.Metadata.Annotations)
			}
		}); err != nil {
			return err
		}
	}
	var set api.StatefulSet
	if err := l.applyWork(ctx, s, &set); err != nil {
		return err
	}
	fault.Point("launch", "pod ordered")
	if err := l.whyNoPod(ctx, s, set); err != nil {
		return err
	}
	return launcher.NotYet(minPoll, "Waiting for a node")
}

// knownHost returns the host for applications, or "" if it depends on the Service.
func (l *Launcher) knownHost(s *server) string {
	switch l.cfg.Service {
	case InCluster:
		return l.serviceHosts(s)[0]
	case NodePort:
		return l.cfg.Host
	}
	return ""
}

// publicAddress returns the address for applications; the host is "" if it is not known yet. The address of a ready
// server never changes, because bindings contain it.
func (l *Launcher) publicAddress(s *server, address api.Service) (host string, publicPort int) {
	if s.state.Host != "" {
		return s.state.Host, s.state.Port
	}
	host = l.knownHost(s)
	switch l.cfg.Service {
	case NodePort:
		return host, address.Spec.Ports[0].NodePort
	case LoadBalancer:
		for _, ingress := range address.Status.LoadBalancer.Ingress {
			return ingress.Hostname + ingress.IP, port // it has one of them
		}
	}
	return host, port
}

// setEndpoint records the server's addresses. A broker in the cluster uses the Service's IP address, because a name
// server may cache for a while that the name does not exist.
func (l *Launcher) setEndpoint(s *server, address api.Service) {
	s.state.Host, s.state.Port = l.publicAddress(s, address)
	s.state.AdminHost, s.state.AdminPort = "", 0
	if l.cfg.Credentials.InCluster || l.cfg.Service == InCluster {
		s.state.AdminHost, s.state.AdminPort = address.Spec.ClusterIP, port
	}
}
