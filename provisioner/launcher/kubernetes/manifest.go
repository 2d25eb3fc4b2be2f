package kubernetes

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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

func claimOf(s *server) api.Claim {
	c := api.Claim{APIVersion: "v1", Kind: "PersistentVolumeClaim", Metadata: s.workMetadata(), Spec: api.ClaimSpec{
		AccessModes: []string{"ReadWriteOnce"},
		Resources:   api.Resources{Requests: map[string]string{storage: fmt.Sprintf("%dMi", s.state.volumeMB())}}}}
	if s.state.Class != "" {
		c.Spec.StorageClassName = &s.state.Class
	}
	return c
}

var serviceTypes = map[Access]string{InCluster: "ClusterIP", NodePort: "NodePort", LoadBalancer: "LoadBalancer"}

// podLabel is that by which a StatefulSet tells its pods apart.
// https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#pod-name-label
const podLabel = "statefulset.kubernetes.io/pod-name"

// serviceOf publishes the address before the pod is ready, because the launcher logs in sooner than a probe succeeds.
// It leads to the first pod alone: if somebody scales the StatefulSet, the others cannot open the data.
func (c Config) serviceOf(s *server) api.Service {
	p := api.ServicePort{Name: portName, Port: port, TargetPort: portName}
	access := c.access(s)
	if access == NodePort {
		p.NodePort = s.state.Port // 0 while it is not known
	}
	return api.Service{APIVersion: "v1", Kind: "Service", Metadata: s.metadata(), Spec: api.ServiceSpec{
		Type: serviceTypes[access], Selector: map[string]string{serverLabel: s.id, podLabel: s.podName()},
		PublishNotReadyAddresses: true, Ports: []api.ServicePort{p}}}
}

// statefulSetOf returns a StatefulSet that restarts no pod when it changes. While the server is resized, its next pod
// has the new size.
func (c Config) statefulSetOf(s *server) api.StatefulSet {
	resized := *s
	resized.state.size = s.wanted()
	s = &resized
	replicas := 1
	if s.state.Phase == phaseSuspended {
		replicas = 0
	}
	return api.StatefulSet{APIVersion: "apps/v1", Kind: "StatefulSet", Metadata: s.workMetadata(),
		Spec: api.StatefulSetSpec{Replicas: replicas, ServiceName: s.name, PodManagementPolicy: "Parallel",
			UpdateStrategy: map[string]string{"type": "OnDelete"},
			Selector:       api.LabelSelector{MatchLabels: map[string]string{serverLabel: s.id}},
			Template:       c.templateOf(s),
		}}
}

func (c Config) templateOf(s *server) api.PodTemplate {
	t := api.PodTemplate{Metadata: api.Metadata{Labels: s.labels(), Annotations: s.userAnnotations()}, Spec: c.podOf(s)}
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
func (c Config) podOf(s *server) api.PodSpec {
	security := api.PodSecurityContext{RunAsNonRoot: true, SeccompProfile: map[string]string{"type": "RuntimeDefault"}}
	if user := c.User; user != 0 {
		security.RunAsUser, security.RunAsGroup, security.FSGroup = &user, &user, &user
		security.FSGroupChangePolicy = "OnRootMismatch"
	}
	mounts := []api.VolumeMount{{Name: dataVol, MountPath: volumeDir},
		{Name: secretVol, MountPath: secretDir, ReadOnly: true},
		{Name: runVol, MountPath: runDir}, {Name: tmpVol, MountPath: "/tmp"}}
	base := api.Container{Image: s.state.Image, Resources: s.state.resources(), VolumeMounts: mounts,
		TerminationMessagePolicy: "FallbackToLogsOnError", // the last lines of the log are then in the pod's status
		SecurityContext: api.ContainerSecurityContext{ReadOnlyRootFilesystem: true,
			Capabilities: map[string][]string{"drop": {"ALL"}}}}
	prepare, server := base, base
	prepare.Name, prepare.Command = "prepare", []string{"/bin/sh", secretDir + "/" + prepareFile}
	server.Name = containerName
	server.Command = []string{program[s.state.Flavour], "--defaults-file=" + secretDir + "/" + settingsFile}
	server.Ports = []api.ContainerPort{{Name: portName, ContainerPort: port}}
	answers := map[string]string{"port": portName}
	// There is no liveness probe: one that only connects does not see that a server hangs. The doctor does.
	server.StartupProbe = &api.Probe{TCPSocket: answers, PeriodSeconds: 1, FailureThreshold: startFailures}
	server.ReadinessProbe = &api.Probe{TCPSocket: answers, PeriodSeconds: 5, FailureThreshold: 3}
	return api.PodSpec{
		Affinity: s.affinity(), Tolerations: s.state.placement().Tolerations,
		TerminationGracePeriodSeconds: stopGrace,
		SecurityContext:               security,
		InitContainers:                []api.Container{prepare},
		Containers:                    []api.Container{server},
		Volumes: []api.Volume{
			{Name: dataVol, PersistentVolumeClaim: &api.ClaimVolume{ClaimName: s.name}},
			{Name: secretVol, Secret: &api.SecretVolume{SecretName: s.name, DefaultMode: secretMode}},
			{Name: runVol, EmptyDir: &map[string]string{}},
			{Name: tmpVol, EmptyDir: &map[string]string{}},
		},
	}
}

// metadata is that of all objects but the Secret.
func (s *server) metadata() api.Metadata {
	return api.Metadata{Name: s.name, Labels: s.labels(), Annotations: s.userAnnotations(),
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
// node of its own.
// https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
func (s *server) affinity() *api.Affinity {
	if !s.state.placement().OwnNode {
		return nil
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
