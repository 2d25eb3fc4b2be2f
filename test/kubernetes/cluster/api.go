package cluster

// apiPod is what a played node reads of a pod.
type apiPod struct {
	Metadata struct {
		metadata
		CreationTimestamp string
	}
	Spec struct {
		NodeName            string
		Hostname, Subdomain string
		Affinity            struct {
			PodAntiAffinity struct {
				Required []struct {
					LabelSelector struct{ MatchLabels map[string]string }
				} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
			}
		}
		SecurityContext struct {
			RunAsUser, RunAsGroup, FSGroup int
		}
		InitContainers []apiContainer
		Containers     []apiContainer
		Volumes        []apiVolume
	}
	Status struct{ Phase string }
}

type apiContainer struct {
	Name, Image   string
	Command, Args []string
	Resources     struct{ Requests, Limits map[string]string }
	StartupProbe  struct {
		TCPSocket struct{ Port any }
	}
	Ports []struct {
		Name          string
		ContainerPort int
	}
	VolumeMounts []struct{ Name, MountPath string }
}

type apiVolume struct {
	Name   string
	Secret *struct {
		SecretName string
		Items      []struct{ Key, Path string }
	}
	PersistentVolumeClaim *struct{ ClaimName string }
	EmptyDir              *struct{}
}

func (p apiPod) path() string {
	return "/api/v1/namespaces/" + p.Metadata.Namespace + "/pods/" + p.Metadata.Name
}
