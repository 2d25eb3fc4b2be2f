package api

import (
	"time"

	"mysql-broker/provisioner/plan"
)

// These types have only the fields that the launcher writes or reads. The types of Kubernetes' own modules would add a
// third to the broker's size and memory.
// https://kubernetes.io/docs/reference/kubernetes-api/

// Kinds of objects, as paths have them.
const (
	Secrets      = "secrets"
	Claims       = "persistentvolumeclaims"
	Services     = "services"
	StatefulSets = "statefulsets"
	Pods         = "pods"
	Events       = "events"
)

type Metadata struct {
	Name            string            `json:"name,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	OwnerReferences []OwnerReference  `json:"ownerReferences,omitempty"`
	Finalizers      []string          `json:"finalizers,omitempty"`

	UID               string    `json:"uid,omitempty"`
	Generation        int       `json:"generation,omitempty"` // counts the changes of the spec
	ResourceVersion   string    `json:"resourceVersion,omitempty"`
	CreationTimestamp time.Time `json:"creationTimestamp,omitzero"`
	DeletionTimestamp time.Time `json:"deletionTimestamp,omitzero"`

	ManagedFields []managedFields `json:"managedFields,omitempty"`
}

// managedFields says who changed an object when. An apply that changes nothing leaves the time as it is.
type managedFields struct {
	Manager     string    `json:"manager"`
	Subresource string    `json:"subresource"`
	Time        time.Time `json:"time"`
}

type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	BlockOwnerDeletion bool   `json:"blockOwnerDeletion"`
}

type DeleteOptions struct {
	APIVersion        string         `json:"apiVersion"`
	Kind              string         `json:"kind"`
	PropagationPolicy string         `json:"propagationPolicy,omitempty"`
	Preconditions     *Preconditions `json:"preconditions,omitempty"`
	DryRun            []string       `json:"dryRun,omitempty"` // "All": only try
}

type Preconditions struct {
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

type Secret struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   Metadata          `json:"metadata"`
	Data       map[string][]byte `json:"data,omitempty"`
}

type Claim struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   Metadata    `json:"metadata"`
	Spec       ClaimSpec   `json:"spec"`
	Status     claimStatus `json:"status,omitzero"`
}

type claimStatus struct {
	Phase                     string            `json:"phase"`
	Capacity                  map[string]string `json:"capacity"`
	AllocatedResourceStatuses map[string]string `json:"allocatedResourceStatuses"`
	Conditions                []condition       `json:"conditions"`
}

type ClaimSpec struct {
	AccessModes      []string  `json:"accessModes"`
	StorageClassName *string   `json:"storageClassName,omitempty"`
	Resources        Resources `json:"resources"`
}

// Resources are quantities by name: "memory": "256Mi".
type Resources struct {
	Requests map[string]string `json:"requests,omitempty"`
	Limits   map[string]string `json:"limits,omitempty"`
}

type Service struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   Metadata    `json:"metadata"`
	Spec       ServiceSpec `json:"spec"`
	Status     struct {
		LoadBalancer struct {
			Ingress []struct {
				IP       string `json:"ip"`
				Hostname string `json:"hostname"`
			} `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status,omitzero"`
}

type ServiceSpec struct {
	Type                     string            `json:"type"`
	Selector                 map[string]string `json:"selector"`
	PublishNotReadyAddresses bool              `json:"publishNotReadyAddresses"`
	Ports                    []ServicePort     `json:"ports"`
	ClusterIP                string            `json:"clusterIP,omitempty"`
}

type ServicePort struct {
	Name       string `json:"name"`
	Port       int    `json:"port"`
	TargetPort any    `json:"targetPort"` // a name; a number if somebody has changed it
	NodePort   int    `json:"nodePort,omitempty"`
}

type StatefulSet struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   Metadata        `json:"metadata"`
	Spec       StatefulSetSpec `json:"spec"`
	Status     struct {
		ObservedGeneration int `json:"observedGeneration"` // the one that its controller has seen
		Replicas           int `json:"replicas"`
	} `json:"status,omitzero"`
}

type StatefulSetSpec struct {
	Replicas            int               `json:"replicas"`
	ServiceName         string            `json:"serviceName"`
	PodManagementPolicy string            `json:"podManagementPolicy"`
	UpdateStrategy      map[string]string `json:"updateStrategy"`
	Selector            LabelSelector     `json:"selector"`
	Template            PodTemplate       `json:"template"`
}

type LabelSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type PodTemplate struct {
	Metadata Metadata `json:"metadata"`
	Spec     PodSpec  `json:"spec"`
}

type PodSpec struct {
	AutomountServiceAccountToken  bool               `json:"automountServiceAccountToken"`
	EnableServiceLinks            bool               `json:"enableServiceLinks"`
	TerminationGracePeriodSeconds int                `json:"terminationGracePeriodSeconds"`
	Affinity                      *Affinity          `json:"affinity,omitempty"`
	Tolerations                   []plan.Toleration  `json:"tolerations,omitempty"`
	SecurityContext               PodSecurityContext `json:"securityContext"`
	InitContainers                []Container        `json:"initContainers"`
	Containers                    []Container        `json:"containers"`
	Volumes                       []Volume           `json:"volumes"`
}

type Affinity struct {
	PodAntiAffinity PodAntiAffinity `json:"podAntiAffinity"`
}

type PodAntiAffinity struct {
	Required []PodAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution"`
}

type PodAffinityTerm struct {
	LabelSelector LabelSelector `json:"labelSelector"`
	TopologyKey   string        `json:"topologyKey"`
}

type PodSecurityContext struct {
	RunAsNonRoot        bool              `json:"runAsNonRoot"`
	RunAsUser           *int              `json:"runAsUser,omitempty"`
	RunAsGroup          *int              `json:"runAsGroup,omitempty"`
	FSGroup             *int              `json:"fsGroup,omitempty"`
	FSGroupChangePolicy string            `json:"fsGroupChangePolicy,omitempty"`
	SeccompProfile      map[string]string `json:"seccompProfile"`
}

type Container struct {
	Name                     string                   `json:"name"`
	Image                    string                   `json:"image"`
	Command                  []string                 `json:"command"`
	SecurityContext          ContainerSecurityContext `json:"securityContext"`
	Resources                Resources                `json:"resources"`
	Ports                    []ContainerPort          `json:"ports,omitempty"`
	TerminationMessagePolicy string                   `json:"terminationMessagePolicy"`
	StartupProbe             *Probe                   `json:"startupProbe,omitempty"`
	ReadinessProbe           *Probe                   `json:"readinessProbe,omitempty"`
	VolumeMounts             []VolumeMount            `json:"volumeMounts"`
}

type ContainerSecurityContext struct {
	AllowPrivilegeEscalation bool                `json:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool                `json:"readOnlyRootFilesystem"`
	Capabilities             map[string][]string `json:"capabilities"`
}

type ContainerPort struct {
	Name          string `json:"name"`
	ContainerPort int    `json:"containerPort"`
}

type Probe struct {
	TCPSocket        map[string]string `json:"tcpSocket"`
	PeriodSeconds    int               `json:"periodSeconds"`
	FailureThreshold int               `json:"failureThreshold"`
}

type VolumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

type Volume struct {
	Name                  string             `json:"name"`
	Secret                *SecretVolume      `json:"secret,omitempty"`
	PersistentVolumeClaim *ClaimVolume       `json:"persistentVolumeClaim,omitempty"`
	EmptyDir              *map[string]string `json:"emptyDir,omitempty"`
}

type SecretVolume struct {
	SecretName  string `json:"secretName"`
	DefaultMode int    `json:"defaultMode"` // decimal
}

type ClaimVolume struct {
	ClaimName string `json:"claimName"`
}

// Pod has the fields that the launcher reads.
type Pod struct {
	Metadata Metadata `json:"metadata"`
	Spec     struct {
		Containers []struct {
			Name      string    `json:"name"`
			Resources Resources `json:"resources"`
		} `json:"containers"`
		Volumes []struct {
			Secret struct {
				SecretName string `json:"secretName"`
			} `json:"secret"`
		} `json:"volumes"`
	} `json:"spec"`
	Status struct {
		Phase                 string            `json:"phase"`
		Reason                string            `json:"reason"`
		Conditions            []condition       `json:"conditions"`
		InitContainerStatuses []ContainerStatus `json:"initContainerStatuses"`
		ContainerStatuses     []ContainerStatus `json:"containerStatuses"`
	} `json:"status"`
}

type condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

type ContainerStatus struct {
	Name         string         `json:"name"`
	Ready        bool           `json:"ready"`
	RestartCount int            `json:"restartCount"`
	ContainerID  string         `json:"containerID"`
	Resources    Resources      `json:"resources"`
	State        ContainerState `json:"state"`
	LastState    ContainerState `json:"lastState"`
}

type ContainerState struct {
	Waiting *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"waiting"`
	Running *struct {
		StartedAt time.Time `json:"startedAt"`
	} `json:"running"`
	Terminated *struct {
		Reason     string    `json:"reason"`
		ExitCode   int       `json:"exitCode"`
		Message    string    `json:"message"`
		FinishedAt time.Time `json:"finishedAt"`
	} `json:"terminated"`
}

type EventList struct {
	Items []struct {
		Metadata Metadata `json:"metadata"`
		Message  string   `json:"message"`
	} `json:"items"`
}
