package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	mysqldimage "mysql-broker/deploy/mysqld-image"
	"mysql-broker/test/audit"
	"mysql-broker/test/kubernetes/cluster"
)

// kubernetesNamespace is one for the servers of both sides.
type kubernetesNamespace struct {
	api         *cluster.Cluster
	name        string
	host, image string // where node ports are; of a mysqld
}

// object is one of Kubernetes, or a part of it.
type object = map[string]any

// call sends a request about the namespace. It returns false if the object is not there.
func (n *kubernetesNamespace) call(ctx context.Context, method, path string, body, into any) (bool, error) {
	group := "/api/v1/namespaces/"
	if strings.HasPrefix(path, "/statefulsets") {
		group = "/apis/apps/v1/namespaces/"
	}
	status, answer, err := n.api.Call(ctx, method, group+n.name+path, body)
	switch {
	case err != nil:
		return false, err
	case status == http.StatusNotFound:
		return false, nil
	case status >= http.StatusMultipleChoices:
		return false, fmt.Errorf("%s %s: status %d: %s", method, path, status, answer)
	case into == nil:
		return true, nil
	}
	return true, json.Unmarshal(answer, into)
}

// make creates the namespace, and returns when pods can be created in it.
func (n *kubernetesNamespace) make(ctx context.Context) error {
	status, answer, err := n.api.Call(ctx, http.MethodPost, "/api/v1/namespaces", object{"apiVersion": "v1",
		"kind": "Namespace", "metadata": object{"name": n.name}})
	if err != nil || status != http.StatusCreated {
		return fmt.Errorf("make the namespace: status %d: %s, %w", status, answer, err)
	}
	return until(ctx, "the namespace has a ServiceAccount", func() (bool, error) {
		return n.call(ctx, http.MethodGet, "/serviceaccounts/default", nil, nil)
	})
}

func (n *kubernetesNamespace) remove(ctx context.Context) error {
	_, err := n.call(ctx, http.MethodDelete, "", nil, nil)
	return err
}

// until returns when a condition holds.
func until(ctx context.Context, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(kubernetesPoll)
	defer tick.Stop()
	for {
		if done, err := holds(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

type podItem struct {
	Metadata struct{ Name, UID string }
}

// pod returns the only pod with a label.
func (n *kubernetesNamespace) pod(ctx context.Context, label string) (podItem, error) {
	var all struct{ Items []podItem }
	if _, err := n.call(ctx, http.MethodGet, "/pods?labelSelector="+label, nil, &all); err != nil || len(all.Items) != 1 {
		return podItem{}, fmt.Errorf("%d pods with the label %s, %w", len(all.Items), label, err)
	}
	return all.Items[0], nil
}

// replacePod deletes the pod with a label, and returns how long it takes until another one has answered a query.
func (n *kubernetesNamespace) replacePod(ctx context.Context, label string, login audit.Credentials) (float64, error) {
	before, err := n.pod(ctx, label)
	if err != nil {
		return 0, err
	}
	since := time.Now()
	if _, err := n.call(ctx, http.MethodDelete, "/pods/"+before.Metadata.Name, nil, nil); err != nil {
		return 0, err
	}
	var took float64
	err = until(ctx, "another pod responds", func() (bool, error) {
		if firstQuery(ctx, login) != nil {
			return false, ctx.Err()
		}
		took = milliseconds(time.Since(since))
		var now podItem
		found, err := n.call(ctx, http.MethodGet, "/pods/"+before.Metadata.Name, nil, &now)
		return found && now.Metadata.UID != before.Metadata.UID, err
	})
	return took, err
}

// serverSecret is the content of the Secret of the broker's only server.
func (n *kubernetesNamespace) serverSecret(ctx context.Context) (map[string][]byte, error) {
	var all struct {
		Items []struct{ Data map[string][]byte }
	}
	_, err := n.call(ctx, http.MethodGet, "/secrets?labelSelector=mysql-broker/server", nil, &all)
	if err != nil || len(all.Items) != 1 {
		return nil, fmt.Errorf("%d Secrets of servers, %w", len(all.Items), err)
	}
	return all.Items[0].Data, nil
}

// rawStatefulSet creates servers from hand-written manifests, with the settings and keys of the broker's servers.
type rawStatefulSet struct {
	*kubernetesNamespace
	flavour string
	secret  map[string][]byte // of one of the broker's servers
}

const rawName = "by-hand"

// live is the life of a server, see dedicatedFleet.live.
func (r *rawStatefulSet) live(ctx context.Context) (figures, error) {
	login := audit.Credentials{Host: r.host, Username: "app", Password: rand.Text(),
		CACertificate: string(r.secret["ca.pem"])}
	since := time.Now()
	for _, o := range r.manifests(login) {
		var made struct {
			Spec struct{ Ports []struct{ NodePort int } }
		}
		if _, err := r.call(ctx, http.MethodPost, o.path, o.body, &made); err != nil {
			return nil, err
		}
		if len(made.Spec.Ports) == 1 {
			login.Port = made.Spec.Ports[0].NodePort
		}
	}
	if err := until(ctx, "mysqld responds", func() (bool, error) { return firstQuery(ctx, login) == nil, ctx.Err() }); err != nil {
		return nil, err
	}
	of := figures{order: milliseconds(time.Since(since))}
	since = time.Now()
	if err := r.resize(ctx); err != nil {
		return nil, err
	}
	of[resize] = milliseconds(time.Since(since))
	var err error
	if of[deleted], err = r.replacePod(ctx, "app="+rawName, login); err != nil {
		return nil, err
	}
	since = time.Now()
	if err := r.removeAll(ctx); err != nil {
		return nil, err
	}
	of[remove] = milliseconds(time.Since(since))
	return of, nil
}

type manifest struct {
	path string
	body object
}

func (r *rawStatefulSet) manifests(login audit.Credentials) []manifest {
	named := object{"name": rawName}
	labels := object{"app": rawName}
	files := map[string][]byte{"init.sql": fmt.Appendf(nil, "CREATE USER IF NOT EXISTS '%[1]s'@'%%' IDENTIFIED BY '%[2]s';\n"+
		"GRANT ALL PRIVILEGES ON *.* TO '%[1]s'@'%%';\n", login.Username, login.Password)}
	for _, name := range []string{"my.cnf", "ca.pem", "server.pem", "server-key.pem"} {
		files[name] = r.secret[name]
	}
	restricted := object{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
		"capabilities": object{"drop": []string{"ALL"}}}
	mounts := []any{object{"name": "data", "mountPath": "/data"}, object{"name": "secret", "mountPath": "/secret"},
		object{"name": "run", "mountPath": "/run/mysqld"}, object{"name": "tmp", "mountPath": "/tmp"}}
	memory := object{"requests": object{"memory": "256Mi"}, "limits": object{"memory": "256Mi"}}
	program := map[string]string{"mysql": "mysqld", "mariadb": "mariadbd"}[r.flavour]
	prepare := "[ -d /data/mysql ] || { mkdir -p /data/tmp && cp -R --sparse=always " + mysqldimage.DataDir +
		" /data/mysql && sync; }"
	probe := object{"tcpSocket": object{"port": 3306}, "periodSeconds": 1, "failureThreshold": 600}
	pod := object{
		"automountServiceAccountToken": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": 60,
		"securityContext": object{"runAsNonRoot": true, "runAsUser": 999, "runAsGroup": 999, "fsGroup": 999,
			"fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": object{"type": "RuntimeDefault"}},
		"initContainers": []any{object{"name": "prepare", "image": r.image, "command": []string{"/bin/sh", "-euc", prepare},
			"securityContext": restricted, "volumeMounts": mounts, "resources": memory}},
		"containers": []any{object{"name": "mysqld", "image": r.image,
			"command":         []string{program, "--defaults-file=/secret/my.cnf"},
			"securityContext": restricted, "volumeMounts": mounts, "resources": memory, "startupProbe": probe}},
		"volumes": []any{object{"name": "data", "persistentVolumeClaim": object{"claimName": rawName}},
			object{"name": "secret", "secret": object{"secretName": rawName, "defaultMode": 0o440}},
			object{"name": "run", "emptyDir": object{}}, object{"name": "tmp", "emptyDir": object{}}},
	}
	return []manifest{
		{"/secrets", object{"apiVersion": "v1", "kind": "Secret", "metadata": named, "data": files}},
		{"/persistentvolumeclaims", object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": named,
			"spec": object{"accessModes": []string{"ReadWriteOnce"},
				"resources": object{"requests": object{"storage": "1Gi"}}}}},
		{"/services", object{"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": object{"type": "NodePort",
			"selector": labels, "publishNotReadyAddresses": true, "ports": []any{object{"port": 3306}}}}},
		{"/statefulsets", object{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": named, "spec": object{
			"replicas": 1, "serviceName": rawName, "selector": object{"matchLabels": labels},
			"template": object{"metadata": object{"labels": labels}, "spec": pod}}}},
	}
}

// resize gives the pod and the claim the size of the larger plan.
func (r *rawStatefulSet) resize(ctx context.Context) error {
	if _, err := r.call(ctx, http.MethodPatch, "/persistentvolumeclaims/"+rawName,
		object{"spec": object{"resources": object{"requests": object{"storage": "10Gi"}}}}, nil); err != nil {
		return err
	}
	const pod = "/pods/" + rawName + "-0"
	var whole object
	if _, err := r.call(ctx, http.MethodGet, pod, nil, &whole); err != nil {
		return err
	}
	memory := object{"requests": object{"memory": "1Gi"}, "limits": object{"memory": "1Gi"}}
	whole["spec"].(object)["containers"].([]any)[0].(object)["resources"] = memory
	if _, err := r.call(ctx, http.MethodPut, pod+"/resize", whole, nil); err != nil {
		return err
	}
	return until(ctx, "the pod has its new size", func() (bool, error) {
		var now struct {
			Status struct {
				ContainerStatuses []struct {
					Resources struct{ Limits map[string]string }
				}
			}
		}
		if _, err := r.call(ctx, http.MethodGet, pod, nil, &now); err != nil {
			return false, err
		}
		all := now.Status.ContainerStatuses
		return len(all) == 1 && all[0].Resources.Limits["memory"] == "1Gi", nil
	})
}

// removeAll returns when pod and claim are gone.
func (r *rawStatefulSet) removeAll(ctx context.Context) error {
	for _, path := range []string{"/statefulsets/", "/services/", "/persistentvolumeclaims/", "/secrets/"} {
		if _, err := r.call(ctx, http.MethodDelete, path+rawName, nil, nil); err != nil {
			return err
		}
	}
	return until(ctx, "pod and claim are gone", func() (bool, error) {
		for _, path := range []string{"/pods/" + rawName + "-0", "/persistentvolumeclaims/" + rawName} {
			if found, err := r.call(ctx, http.MethodGet, path, nil, nil); found || err != nil {
				return false, err
			}
		}
		return true, nil
	})
}
