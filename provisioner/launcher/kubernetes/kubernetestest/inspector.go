// Package kubernetestest examines what the Kubernetes launcher runs, for tests: the objects of its namespace, as an
// administrator of the cluster sees them. It shares no code with the launcher, so that it does not repeat mistakes.
package kubernetestest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/test/limits"
)

// Inspector is the audit.Inspector for the launcher with that namespace.
type Inspector struct {
	Namespace string

	// Call sends a request to the API server as an administrator of the cluster.
	Call func(ctx context.Context, method, path string, body any) (status int, response []byte, err error)
}

// kinds are all objects that a server consists of, by their resources.
var kinds = map[string]string{
	"secrets":                "/api/v1",
	"persistentvolumeclaims": "/api/v1",
	"services":               "/api/v1",
	"statefulsets":           "/apis/apps/v1",
	"pods":                   "/api/v1",
}

// Inspect implements audit.Inspector.
func (in Inspector) Inspect(ids []string,
	suspended map[string]bool) (found map[string]launcher.Endpoint, problems []string) {
	ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
	defer cancel()
	i := &inspection{Inspector: in, ids: ids, suspended: suspended, found: map[string]launcher.Endpoint{},
		there: map[string]map[string]object{}}
	for kind, group := range kinds {
		if err := i.list(ctx, kind, group); err != nil {
			return nil, []string{fmt.Sprintf("The %s of the namespace %s cannot be listed: %v.", kind, in.Namespace, err)}
		}
	}
	i.checkOrphans()
	for _, id := range ids {
		i.checkServer(id)
	}
	for id := range suspended {
		i.checkSuspended(id)
	}
	return i.found, i.problems
}

// inspection collects the differences.
type inspection struct {
	Inspector
	ids       []string // of the servers that should exist
	suspended map[string]bool
	there     map[string]map[string]object // by kind and name
	found     map[string]launcher.Endpoint
	problems  []string
}

func (i *inspection) report(format string, args ...any) {
	i.problems = append(i.problems, fmt.Sprintf(format, args...))
}

// object has what is compared of any kind.
type object struct {
	Metadata struct {
		Name, UID         string
		DeletionTimestamp string
		Labels            map[string]string
		Annotations       map[string]string
		OwnerReferences   []struct{ Kind, Name, UID string }
	}
	Type string            // of a Secret
	Data map[string][]byte // of a Secret
	Spec struct {
		Replicas int                      // of a StatefulSet
		Ports    []struct{ NodePort int } // of a Service
	}
	Status struct {
		Phase             string // of a pod or a claim
		ContainerStatuses []struct {
			State map[string]any
		}
	}
}

// runs reports whether a container of a pod runs.
func (o object) runs() bool {
	return slices.ContainsFunc(o.Status.ContainerStatuses, func(c struct{ State map[string]any }) bool {
		return c.State["running"] != nil
	})
}

func (i *inspection) list(ctx context.Context, kind, group string) error {
	status, response, err := i.Call(ctx, http.MethodGet, group+"/namespaces/"+i.Namespace+"/"+kind, nil)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("status %d: %s %w", status, response, err)
	}
	var all struct{ Items []object }
	if err := json.Unmarshal(response, &all); err != nil {
		return err
	}
	i.there[kind] = map[string]object{}
	for _, o := range all.Items {
		i.there[kind][o.Metadata.Name] = o
	}
	return nil
}

// nameOf is that of a server's objects; that of its pod has "-0" at the end.
func nameOf(id string) string { return strings.ReplaceAll(id, "_", "-") }

// checkOrphans wants no objects but those of the servers and the broker's notes.
func (i *inspection) checkOrphans() {
	names := map[string]bool{}
	for _, id := range slices.Concat(i.ids, slices.Collect(maps.Keys(i.suspended))) {
		names[nameOf(id)] = true
	}
	for kind, objects := range i.there {
		for name, o := range objects {
			note := kind == "secrets" && strings.HasPrefix(name, "note.")
			token := o.Type == "kubernetes.io/service-account-token"
			if !names[strings.TrimSuffix(name, "-0")] && !note && !token {
				i.report("Orphan: %s %s in the namespace %s.", kind, name, i.Namespace)
			}
		}
	}
}

// objectsOf returns the objects of a server by kind, and reports what is wrong with any of them.
func (i *inspection) objectsOf(id string, kinds ...string) map[string]object {
	all := map[string]object{}
	for _, kind := range kinds {
		name := nameOf(id)
		if kind == "pods" {
			name += "-0"
		}
		o, there := i.there[kind][name]
		if !there {
			i.report("Missing: %s %s of the dedicated server %s.", kind, name, id)
			continue
		}
		if o.Metadata.DeletionTimestamp != "" {
			i.report("The %s of the dedicated server %s are being deleted.", kind, id)
		}
		if label := o.Metadata.Labels["mysql-broker/server"]; label != id {
			i.report("The %s of the dedicated server %s have the label %q.", kind, id, label)
		}
		all[kind] = o
	}
	for kind, o := range all {
		if kind == "secrets" || kind == "pods" { // the owner, and what belongs to the StatefulSet
			continue
		}
		owners, owner := o.Metadata.OwnerReferences, all["secrets"].Metadata.UID
		if len(owners) != 1 || owners[0].Kind != "Secret" || owners[0].UID != owner {
			i.report("The %s of the dedicated server %s belong to %v instead of its Secret %s.", kind, id, owners, owner)
		}
	}
	return all
}

// checkServer looks at the objects of one server.
func (i *inspection) checkServer(id string) {
	all := i.objectsOf(id, slices.Collect(maps.Keys(kinds))...)
	if len(all) < len(kinds) {
		return // reported
	}
	if replicas := all["statefulsets"].Spec.Replicas; replicas != 1 {
		i.report("The dedicated server %s is to have %d pods instead of one.", id, replicas)
	}
	if pod := all["pods"]; !pod.runs() {
		i.report("The pod of the dedicated server %s is %s, and no container runs.", id, pod.Status.Phase)
	}
	if bound := all["persistentvolumeclaims"].Status.Phase; bound != "Bound" {
		i.report("The volume of the dedicated server %s is %s.", id, bound)
	}
	st := i.checkState(id, all["secrets"], "ready")
	if ports := all["services"].Spec.Ports; len(ports) != 1 || ports[0].NodePort != st.Port {
		i.report("The Service of the dedicated server %s has the ports %v instead of %d.", id, ports, st.Port)
	}
	i.found[id] = launcher.Endpoint{Host: st.Host, Port: st.Port, CACertificate: all["secrets"].Data["ca.pem"]}
}

// checkSuspended looks at the objects of a server that keeps its data and does not run.
func (i *inspection) checkSuspended(id string) {
	all := i.objectsOf(id, "secrets", "persistentvolumeclaims", "services", "statefulsets")
	if pod, there := i.there["pods"][nameOf(id)+"-0"]; there {
		i.report("The dedicated server %s is to be suspended, and has a pod that is %s.", id, pod.Status.Phase)
	}
	if replicas := all["statefulsets"].Spec.Replicas; replicas != 0 {
		i.report("The dedicated server %s is to be suspended, and is to have %d pods.", id, replicas)
	}
	i.checkState(id, all["secrets"], "suspended")
}

// state is what the launcher records of a server.
type state struct {
	Phase string `json:"phase"`
	Host  string `json:"host"`
	Port  int    `json:"port"`
}

// checkState compares what is recorded in the Secret of a server that was reported ready.
func (i *inspection) checkState(id string, secret object, phase string) (st state) {
	if err := json.Unmarshal([]byte(secret.Metadata.Annotations["mysql-broker/state"]), &st); err != nil {
		i.report("The state of the dedicated server %s cannot be read: %v.", id, err)
		return st
	}
	if st.Phase != phase {
		i.report("The dedicated server %s is %s instead of %s.", id, st.Phase, phase)
	}
	if secret.Metadata.Annotations["mysql-broker/kept"] != "true" {
		i.report("The dedicated server %s is not recorded to be kept, though it was handed out.", id)
	}
	return st
}
