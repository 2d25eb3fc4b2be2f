package kubernetes

import (
	"time"

	"mysql-broker/provisioner/plan"
)

// These types have only the fields that the launcher writes or reads. The types of Kubernetes' own modules would add a
// third to the broker's size and memory.
// https://kubernetes.io/docs/reference/kubernetes-api/

// Kinds of objects, as paths have them.
const (
	secrets      = "secrets"
	claims       = "persistentvolumeclaims"
	services     = "services"
	statefulSets = "statefulsets"
	pods         = "pods"
	events       = "events"
	budgets      = "poddisruptionbudgets"
)

type metadata struct {
	Name            string            `json:"name,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	OwnerReferences []ownerReference  `json:"ownerReferences,omitempty"`

	UID               string    `json:"uid,omitempty"`
	Generation        int       `json:"generation,omitempty"` // counts the changes of the spec
	ResourceVersion   string    `json:"resourceVersion,omitempty"`
	CreationTimestamp time.Time `json:"creationTimestamp,omitzero"`
	DeletionTimestamp time.Time `json:"deletionTimestamp,omitzero"`

	ManagedFields []managedFields `json:"managedFields,omitempty"`
}

// managedFields says who changed an object when. An apply that changes nothing leaves the time as it is.
type managedFields struct {
	Manager string    `json:"manager"`
	Time    time.Time `json:"time"`
}

type ownerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	BlockOwnerDeletion bool   `json:"blockOwnerDeletion"`
}

type deleteOptions struct {
	APIVersion         string         `json:"apiVersion"`
	Kind               string         `json:"kind"`
	PropagationPolicy  string         `json:"propagationPolicy,omitempty"`
	GracePeriodSeconds *int           `json:"gracePeriodSeconds,omitempty"`
	Preconditions      *preconditions `json:"preconditions,omitempty"`
}

type preconditions struct {
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

type secret struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Data       map[string][]byte `json:"data,omitempty"`
}

type claim struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   metadata    `json:"metadata"`
	Spec       claimSpec   `json:"spec"`
	Status     claimStatus `json:"status,omitzero"`
}

type claimStatus struct {
	Phase                     string            `json:"phase"`
	Capacity                  map[string]string `json:"capacity"`
	AllocatedResourceStatuses map[string]string `json:"allocatedResourceStatuses"`
	Conditions                []condition       `json:"conditions"`
}

type claimSpec struct {
	AccessModes      []string  `json:"accessModes"`
	StorageClassName *string   `json:"storageClassName,omitempty"`
	Resources        resources `json:"resources"`
}

// resources are quantities by name: "memory": "256Mi".
type resources struct {
	Requests map[string]string `json:"requests,omitempty"`
	Limits   map[string]string `json:"limits,omitempty"`
}

type service struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   metadata    `json:"metadata"`
	Spec       serviceSpec `json:"spec"`
	Status     struct {
		LoadBalancer struct {
			Ingress []struct {
				IP       string `json:"ip"`
				Hostname string `json:"hostname"`
			} `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status,omitzero"`
}

type serviceSpec struct {
	Type                     string            `json:"type"`
	Selector                 map[string]string `json:"selector"`
	PublishNotReadyAddresses bool              `json:"publishNotReadyAddresses"`
	Ports                    []servicePort     `json:"ports"`
	ClusterIP                string            `json:"clusterIP,omitempty"`
}

type servicePort struct {
	Name       string `json:"name"`
	Port       int    `json:"port"`
	TargetPort string `json:"targetPort"`
	NodePort   int    `json:"nodePort,omitempty"`
}

type statefulSet struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   metadata        `json:"metadata"`
	Spec       statefulSetSpec `json:"spec"`
	Status     struct {
		ObservedGeneration int `json:"observedGeneration"` // the one that its controller has seen
		Replicas           int `json:"replicas"`
	} `json:"status,omitzero"`
}

type statefulSetSpec struct {
	Replicas            int               `json:"replicas"`
	ServiceName         string            `json:"serviceName"`
	PodManagementPolicy string            `json:"podManagementPolicy"`
	UpdateStrategy      map[string]string `json:"updateStrategy"`
	Selector            labelSelector     `json:"selector"`
	Template            podTemplate       `json:"template"`
}

type budget struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   metadata   `json:"metadata"`
	Spec       budgetSpec `json:"spec"`
}

type budgetSpec struct {
	MaxUnavailable int           `json:"maxUnavailable"`
	Selector       labelSelector `json:"selector"`
}

type labelSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type podTemplate struct {
	Metadata metadata `json:"metadata"`
	Spec     podSpec  `json:"spec"`
}

type podSpec struct {
	AutomountServiceAccountToken  bool               `json:"automountServiceAccountToken"`
	EnableServiceLinks            bool               `json:"enableServiceLinks"`
	TerminationGracePeriodSeconds int                `json:"terminationGracePeriodSeconds"`
	Affinity                      *affinity          `json:"affinity,omitempty"`
	Tolerations                   []plan.Toleration  `json:"tolerations,omitempty"`
	SecurityContext               podSecurityContext `json:"securityContext"`
	InitContainers                []container        `json:"initContainers"`
	Containers                    []container        `json:"containers"`
	Volumes                       []volume           `json:"volumes"`
}

type affinity struct {
	PodAntiAffinity podAntiAffinity `json:"podAntiAffinity"`
}

type podAntiAffinity struct {
	Required []podAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution"`
}

type podAffinityTerm struct {
	LabelSelector labelSelector `json:"labelSelector"`
	TopologyKey   string        `json:"topologyKey"`
}

type podSecurityContext struct {
	RunAsNonRoot        bool              `json:"runAsNonRoot"`
	RunAsUser           *int              `json:"runAsUser,omitempty"`
	RunAsGroup          *int              `json:"runAsGroup,omitempty"`
	FSGroup             *int              `json:"fsGroup,omitempty"`
	FSGroupChangePolicy string            `json:"fsGroupChangePolicy,omitempty"`
	SeccompProfile      map[string]string `json:"seccompProfile"`
}

type container struct {
	Name                     string                   `json:"name"`
	Image                    string                   `json:"image"`
	Command                  []string                 `json:"command"`
	SecurityContext          containerSecurityContext `json:"securityContext"`
	Resources                resources                `json:"resources"`
	Ports                    []containerPort          `json:"ports,omitempty"`
	TerminationMessagePolicy string                   `json:"terminationMessagePolicy"`
	StartupProbe             *probe                   `json:"startupProbe,omitempty"`
	ReadinessProbe           *probe                   `json:"readinessProbe,omitempty"`
	VolumeMounts             []volumeMount            `json:"volumeMounts"`
}

type containerSecurityContext struct {
	AllowPrivilegeEscalation bool                `json:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool                `json:"readOnlyRootFilesystem"`
	Capabilities             map[string][]string `json:"capabilities"`
}

type containerPort struct {
	Name          string `json:"name"`
	ContainerPort int    `json:"containerPort"`
}

type probe struct {
	TCPSocket        map[string]string `json:"tcpSocket"`
	PeriodSeconds    int               `json:"periodSeconds"`
	FailureThreshold int               `json:"failureThreshold"`
}

type volumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

type volume struct {
	Name                  string             `json:"name"`
	Secret                *secretVolume      `json:"secret,omitempty"`
	PersistentVolumeClaim *claimVolume       `json:"persistentVolumeClaim,omitempty"`
	EmptyDir              *map[string]string `json:"emptyDir,omitempty"`
}

type secretVolume struct {
	SecretName  string `json:"secretName"`
	DefaultMode int    `json:"defaultMode"` // decimal
}

type claimVolume struct {
	ClaimName string `json:"claimName"`
}

// pod has the fields that the launcher reads.
type pod struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Containers []struct {
			Resources resources `json:"resources"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase                 string            `json:"phase"`
		Reason                string            `json:"reason"`
		Conditions            []condition       `json:"conditions"`
		InitContainerStatuses []containerStatus `json:"initContainerStatuses"`
		ContainerStatuses     []containerStatus `json:"containerStatuses"`
	} `json:"status"`
}

type condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

type containerStatus struct {
	Name         string         `json:"name"`
	Ready        bool           `json:"ready"`
	RestartCount int            `json:"restartCount"`
	ContainerID  string         `json:"containerID"`
	Resources    resources      `json:"resources"`
	State        containerState `json:"state"`
	LastState    containerState `json:"lastState"`
}

type containerState struct {
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

type eventList struct {
	Items []struct {
		Message string `json:"message"`
	} `json:"items"`
}
