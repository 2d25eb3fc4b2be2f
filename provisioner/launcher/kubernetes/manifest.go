package kubernetes

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqld"
)

const (
	// stopGrace is how many seconds a server may take to write its changes to disk before it is killed. After a kill, it
	// recovers at its next start and loses nothing.
	stopGrace = 60

	// startFailures limits the startup probe, which runs each second. Recovery from a crash may take long.
	startFailures = 3600

	secretMode = 0o440

	containerName = "mysqld"
	portName      = "mysql"
	secretVol     = "secret"
	dataVol       = "data"
	runVol        = "run"
	tmpVol        = "tmp"
	copyVol       = "before"
)

func (l *Launcher) claimOf(s *server) api.Claim {
	c := api.Claim{APIVersion: "v1", Kind: "PersistentVolumeClaim", Metadata: s.workMetadata(), Spec: api.ClaimSpec{
		AccessModes: []string{"ReadWriteOnce"},
		Resources:   api.Resources{Requests: map[string]string{storage: fmt.Sprintf("%dMi", s.state.volumeMB())}}}}
	if s.state.Class != "" {
		c.Spec.StorageClassName = &s.state.Class
	}
	return c
}

var serviceTypes = map[Access]string{InCluster: "ClusterIP", NodePort: "NodePort", LoadBalancer: "LoadBalancer"}

// serviceOf publishes the address before the pod is ready, because the launcher logs in sooner than a probe succeeds.
func (l *Launcher) serviceOf(s *server) api.Service {
	p := api.ServicePort{Name: portName, Port: port, TargetPort: portName}
	if l.cfg.Service == NodePort {
		p.NodePort = s.address().Port // 0 while it is not known
	}
	return api.Service{APIVersion: "v1", Kind: "Service", Metadata: s.metadata(), Spec: api.ServiceSpec{
		Type: serviceTypes[l.cfg.Service], Selector: s.selector(),
		PublishNotReadyAddresses: true, Ports: []api.ServicePort{p}}}
}

// statefulSetOf returns a StatefulSet that restarts no pod when it changes. While the server is resized, its next pod
// has the new size.
func (l *Launcher) statefulSetOf(s *server) api.StatefulSet {
	resized := *s
	resized.state.size = s.wanted()
	s = &resized
	replicas := 1
	if s.state.Phase == phaseSuspended {
		replicas = 0
	}
	return api.StatefulSet{APIVersion: "apps/v1", Kind: "StatefulSet", Metadata: s.workMetadata(),
		Spec: api.StatefulSetSpec{Replicas: replicas, ServiceName: s.governor(), PodManagementPolicy: "Parallel",
			UpdateStrategy: map[string]string{"type": "OnDelete"},
			Selector:       api.LabelSelector{MatchLabels: s.selector()},
			Template:       l.templateOf(s),
		}}
}

func (l *Launcher) templateOf(s *server) api.PodTemplate {
	t := api.PodTemplate{Metadata: api.Metadata{Labels: s.labels(), Annotations: s.userAnnotations()}, Spec: l.podOf(s)}
	if s.member > 0 {
		t.Metadata.Annotations[rollAnnotation] = s.roll()
	}
	if s.state.Upgrade != nil {
		t.Metadata.Annotations[workAnnotation] = s.state.Upgrade.work()
		workIn(&t.Spec, s)
	}
	return t
}

// workScript is what the init containers of an upgrade run.
//
//go:embed upgrade.sh
var workScript string

// workIn has a pod do the work of an upgrade. Its main container waits, so that the pod is not started again.
func workIn(p *api.PodSpec, s *server) {
	u := s.state.Upgrade
	p.Volumes = append(p.Volumes, api.Volume{Name: copyVol,
		PersistentVolumeClaim: &api.ClaimVolume{ClaimName: s.copyName()}})
	do := func(work, image, version string) api.Container {
		c := p.InitContainers[0]
		c.Name, c.Image = work, image
		c.Command = []string{"/bin/sh", "-c", workScript, "upgrade.sh", work, s.state.Flavour, version, u.ID,
			strings.Join(mysqld.InventoryQueries, ";\n")}
		c.VolumeMounts = append(slices.Clone(c.VolumeMounts), api.VolumeMount{Name: copyVol, MountPath: copyDir})
		return c
	}
	if u.Reverts {
		p.InitContainers = append(p.InitContainers, do("restore", s.state.Image, s.state.Version))
	} else {
		p.InitContainers = append(p.InitContainers, do("copy", s.state.Image, s.state.Version),
			do("upgrade", u.Image, u.Version))
	}
	main := &p.Containers[0]
	main.Command = []string{"/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 60 & wait $!; done"}
	main.StartupProbe, main.ReadinessProbe = nil, nil
}

// podOf complies with the restricted Pod Security Standard.
// https://kubernetes.io/docs/concepts/security/pod-security-standards/
func (l *Launcher) podOf(s *server) api.PodSpec {
	security := api.PodSecurityContext{RunAsNonRoot: true, SeccompProfile: map[string]string{"type": "RuntimeDefault"}}
	if user := l.cfg.User; user != 0 {
		security.RunAsUser, security.RunAsGroup, security.FSGroup = &user, &user, &user
		security.FSGroupChangePolicy = "OnRootMismatch"
	}
	mounts := []api.VolumeMount{{Name: dataVol, MountPath: volumeDir},
		{Name: secretVol, MountPath: secretDir, ReadOnly: true},
		{Name: runVol, MountPath: runDir}, {Name: tmpVol, MountPath: "/tmp"}}
	base := api.Container{Image: s.image(), Resources: s.state.resources(), VolumeMounts: mounts,
		TerminationMessagePolicy: "FallbackToLogsOnError", // the last lines of the log are then in the pod's status
		SecurityContext: api.ContainerSecurityContext{ReadOnlyRootFilesystem: true,
			Capabilities: map[string][]string{"drop": {"ALL"}}}}
	prepare, server := base, base
	prepare.Name, prepare.Command = "prepare", []string{"/bin/sh", secretDir + "/" + prepareFile}
	server.Name = containerName
	server.Command = []string{program[s.state.Flavour], "--defaults-file=" + secretDir + "/" + s.settingsFile()}
	server.Ports = s.ports()
	answers := map[string]string{"port": portName}
	// There is no liveness probe: a restart would repair nothing, and could interrupt a recovery.
	server.StartupProbe = &api.Probe{TCPSocket: answers, PeriodSeconds: 1, FailureThreshold: startFailures}
	server.ReadinessProbe = &api.Probe{TCPSocket: answers, PeriodSeconds: 5, FailureThreshold: 3}
	return api.PodSpec{
		Affinity: s.affinity(), Tolerations: s.state.placement().Tolerations,
		TerminationGracePeriodSeconds: stopGrace,
		SecurityContext:               security,
		InitContainers:                []api.Container{prepare},
		Containers:                    []api.Container{server},
		Volumes: []api.Volume{
			{Name: dataVol, PersistentVolumeClaim: &api.ClaimVolume{ClaimName: s.workName()}},
			{Name: secretVol, Secret: &api.SecretVolume{SecretName: s.name, DefaultMode: secretMode}},
			{Name: runVol, EmptyDir: &map[string]string{}},
			{Name: tmpVol, EmptyDir: &map[string]string{}},
		},
	}
}

// metadata is that of all objects but the Secret.
func (s *server) metadata() api.Metadata {
	return api.Metadata{Name: s.workName(), Labels: s.labels(), Annotations: s.userAnnotations(),
		OwnerReferences: s.owner()}
}

// worksAnnotation is the number of the work that an object was applied for. So the object changes even if the work puts
// its former content back, and a broker that was paused cannot replace it.
const worksAnnotation = "mysql-broker/works"

func (s *server) workMetadata() api.Metadata {
	m := s.metadata()
	m.Annotations[worksAnnotation] = strconv.Itoa(s.state.Works)
	return m
}

// affinity keeps all other servers of the namespace, including later ones, away from the node of a server that has a
// node of its own, and otherwise the members of a group apart.
// https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
func (s *server) affinity() *api.Affinity {
	if !s.state.placement().OwnNode {
		return s.groupAffinity()
	}
	others := api.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname",
		LabelSelector: api.LabelSelector{MatchLabels: map[string]string{managedByLabel: managedBy}}}
	return &api.Affinity{PodAntiAffinity: api.PodAntiAffinity{Required: []api.PodAffinityTerm{others}}}
}

// labels are those of the plan and those of the launcher.
func (s *server) labels() map[string]string {
	all := maps.Clone(s.state.placement().Labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labelsOf(s.id))
	if s.member > 0 {
		all[memberLabel] = strconv.Itoa(s.member)
	}
	return all
}

// labelPrefix is the prefix of the annotations with the labels of a Spec. Labels of Kubernetes allow fewer characters.
const labelPrefix = "label.mysql-broker/"

func (s *server) userAnnotations() map[string]string {
	all := map[string]string{}
	maps.Copy(all, s.state.placement().Annotations)
	for key, value := range s.secret.Metadata.Annotations {
		if strings.HasPrefix(key, labelPrefix) {
			all[key] = value
		}
	}
	return all
}

// namesOf is the headless Service that gives the members of a group their names, also before they are ready.
func namesOf(s *server) api.Service {
	m := s.metadata()
	m.Name = s.of(1).governor()
	return api.Service{APIVersion: "v1", Kind: "Service", Metadata: m, Spec: api.ServiceSpec{
		Type: "ClusterIP", ClusterIP: "None", Selector: s.selector(), PublishNotReadyAddresses: true,
		Ports: []api.ServicePort{
			{Name: portName, Port: port, TargetPort: portName},
			{Name: groupPortName, Port: groupPort, TargetPort: groupPortName}}}}
}

// budgetOf lets nodes be drained one after the other.
func budgetOf(s *server) api.Budget {
	return api.Budget{APIVersion: "policy/v1", Kind: "PodDisruptionBudget", Metadata: s.metadata(),
		Spec: api.BudgetSpec{MaxUnavailable: 1, Selector: api.LabelSelector{MatchLabels: s.selector()}}}
}

// leadingTo is the Service of a group for applications, which leads to a member, counted from 1. If that is not the
// primary any more, the member refuses them.
func (l *Launcher) leadingTo(s *server, member int) api.Service {
	to := l.serviceOf(s)
	to.Spec.Selector = s.of(member).selector()
	return to
}

// makeGroup creates or corrects all objects of a group but the Secret, and returns NotYet.
func (l *Launcher) makeGroup(ctx context.Context, s *server) error {
	if err := l.api.Apply(ctx, l.api.Path(api.Services, s.of(1).governor()), namesOf(s), nil); err != nil {
		return err
	}
	if err := l.api.Apply(ctx, l.api.Path(api.Budgets, s.name), budgetOf(s), nil); err != nil {
		return err
	}
	var primary api.Service
	err := l.api.Get(ctx, l.api.Path(api.Services, s.name), &primary)
	if api.IsNotFound(err) { // one that is there leads to the primary
		err = l.api.Apply(ctx, l.api.Path(api.Services, s.name), l.leadingTo(s, 1), nil)
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
	if err := l.api.Apply(ctx, l.api.Path(api.Services, m.workName()), l.serviceOf(m), nil); err != nil {
		return err
	}
	var set api.StatefulSet
	if err := l.applyWork(ctx, m, &set); err != nil {
		return err
	}
	return l.whyNoPod(ctx, m, set)
}

// leadTo has the Service of a group lead to a member. known is the Service as it was before the members were asked
// which one is the primary, so that a broker that was paused since then changes nothing.
func (l *Launcher) leadTo(ctx context.Context, s *server, known *api.Service, member int) error {
	selector := s.of(member).selector()
	if known.Spec.Selector[memberLabel] == selector[memberLabel] {
		return nil
	}
	change := map[string]any{"metadata": map[string]string{"uid": known.Metadata.UID,
		"resourceVersion": known.Metadata.ResourceVersion}, "spec": map[string]any{"selector": selector}}
	err := l.api.Merge(ctx, l.api.Path(api.Services, s.name), change, known)
	if err == nil {
		l.cfg.Logger.Info("applications are led to another member of a group", "server", s.id, "member",
			s.of(member).at())
	}
	return err
}
