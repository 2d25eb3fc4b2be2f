package plan

// Placement says where a cluster runs a dedicated server, and with what labels.
type Placement struct {
	OwnNode      bool         `json:"own_node,omitempty"`      // no other server is on its node
	StorageClass string       `json:"storage_class,omitempty"` // of its volume; "" for the launcher's
	Tolerations  []Toleration `json:"tolerations,omitempty"`

	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Toleration lets a server run on nodes with a taint.
// https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
type Toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"`
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`
}
