package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/plan"
)

// phase is how far a server has come.
type phase string

const (
	phaseLaunching phase = "launching" // not yet reported ready
	phaseReady     phase = "ready"     // it may hold a tenant's data
	phaseSuspended phase = "suspended" // it has no pod, and keeps its data
	phaseUpgrading phase = "upgrading" // its pod does the work of an upgrade: see upgrade.go
)

// state is the desired state of a server, and the address in its bindings.
type state struct {
	Phase   phase  `json:"phase"`
	Flavour string `json:"flavour"`
	Version string `json:"version"` // that the data is of
	Image   string `json:"image"`
	Class   string `json:"storage_class,omitempty"` // of the claim, which cannot change; "" for the cluster's default

	size

	Upgrade *upgrade  `json:"upgrade,omitempty"` // only in phaseUpgrading
	Resize  *resizing `json:"resize,omitempty"`  // nil unless a resize has begun and not ended

	// Works counts the upgrades, resizes, suspensions and the like that have begun. It shows a broker that was paused that
	// another one has continued, even if that one has put everything back.
	Works int `json:"works,omitempty"`

	// Changes counts the other changes of the Secret.
	Changes int `json:"changes,omitempty"`

	AdminUser string `json:"admin_user"`

	Host      string `json:"host,omitempty"`
	Port      int    `json:"port,omitempty"`
	AdminHost string `json:"admin_host,omitempty"`
	AdminPort int    `json:"admin_port,omitempty"`
}

// size is what a plan gives a server.
type size struct {
	MemoryMB   int             `json:"memory_mb"`
	MilliCPU   int             `json:"milli_cpu,omitempty"`
	StorageMB  int             `json:"storage_mb"`
	ClaimMB    int             `json:"claim_mb"` // the size of the claim, which cannot shrink
	BinaryLogs bool            `json:"binary_logs,omitempty"`
	Placement  *plan.Placement `json:"placement,omitempty"`
}

// server is a server and its Secret.
type server struct {
	id     string
	name   string // of its objects
	secret api.Secret
	state  state
}

func (s *server) readState() error {
	if err := json.Unmarshal([]byte(s.secret.Metadata.Annotations[stateAnnotation]), &s.state); err != nil {
		return fmt.Errorf("server %s: its Secret %s has no state that can be read: %w", s.id, s.name, err)
	}
	return nil
}

func (s *server) writeState() {
	text, err := json.Marshal(s.state)
	if err != nil {
		panic(err) // numbers and strings alone
	}
	annotations := maps.Clone(s.secret.Metadata.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[stateAnnotation] = string(text)
	s.secret.Metadata.Annotations = annotations
}

// placement is the zero value where the plan says nothing.
func (z size) placement() plan.Placement {
	if z.Placement == nil {
		return plan.Placement{}
	}
	return *z.Placement
}

// sameNodes reports whether a server of one size may stay on the node of the other: labels and the like may differ.
func (z size) sameNodes(other size) bool {
	a, b := z.placement(), other.placement()
	return a.OwnNode == b.OwnNode && slices.Equal(a.Tolerations, b.Tolerations)
}

// wanted is the size that the server is to have.
func (s *server) wanted() size {
	if s.state.Resize != nil {
		return s.state.Resize.size
	}
	return s.state.size
}

// volumeMB is the size that the claim is to have.
func (z size) volumeMB() int { return max(z.ClaimMB, z.StorageMB) }

func (s *server) kept() bool { return s.secret.Metadata.Annotations[keptAnnotation] != "" }

func (s *server) podName() string { return s.name + "-0" }

func (s *server) endpoint() launcher.Endpoint {
	return launcher.Endpoint{Host: s.state.Host, Port: s.state.Port, CACertificate: s.secret.Data[caFile],
		AdminHost: s.state.AdminHost, AdminPort: s.state.AdminPort}
}

// owner makes the Secret the owner of an object, so that deleting the Secret deletes the object.
func (s *server) owner() []api.OwnerReference {
	return []api.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: s.name, UID: s.secret.Metadata.UID,
		BlockOwnerDeletion: true}}
}

// resources returns the requests and limits of the plan.
func (z size) resources() api.Resources {
	bytes := fmt.Sprintf("%dMi", z.MemoryMB)
	r := api.Resources{Requests: map[string]string{memory: bytes}, Limits: map[string]string{memory: bytes}}
	if z.MilliCPU > 0 {
		cpu := fmt.Sprintf("%dm", z.MilliCPU)
		r.Requests["cpu"], r.Limits["cpu"] = cpu, cpu
	}
	return r
}

// serviceHosts returns the host names of a server within its cluster.
func (c Config) serviceHosts(s *server) []string {
	host := s.name + "." + c.Namespace + ".svc"
	return []string{host, host + ".cluster.local", s.name + "." + c.Namespace, s.name}
}

// access is how a server is reached: as configured, but a ready server as its address says, which never changes.
func (c Config) access(s *server) Access {
	switch {
	case s.state.Host == "":
		return c.Service
	case s.state.Host == c.serviceHosts(s)[0]:
		return InCluster
	case s.state.Port != port:
		return NodePort
	}
	return LoadBalancer
}

// publicAddress returns the address for applications; the host is "" if it is not known yet. The address of a ready
// server never changes, because bindings contain it.
func (c Config) publicAddress(s *server, address api.Service) (host string, publicPort int) {
	if s.state.Host != "" {
		return s.state.Host, s.state.Port
	}
	switch c.Service {
	case InCluster:
		return c.serviceHosts(s)[0], port
	case NodePort:
		return c.Host, address.Spec.Ports[0].NodePort
	}
	for _, ingress := range address.Status.LoadBalancer.Ingress {
		return ingress.Hostname + ingress.IP, port // it has one of them
	}
	return "", port
}

// setEndpoint records the server's addresses. A broker in the cluster uses the Service's IP address, because a name
// server may cache for a while that the name does not exist.
func (c Config) setEndpoint(s *server, address api.Service) {
	s.state.Host, s.state.Port = c.publicAddress(s, address)
	s.state.AdminHost, s.state.AdminPort = "", 0
	if c.Credentials.InCluster || c.access(s) == InCluster {
		s.state.AdminHost, s.state.AdminPort = address.Spec.ClusterIP, port
	}
}
