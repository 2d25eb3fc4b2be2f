package kubernetes_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// kindsOf are the objects of a server that its Secret owns, by what tests call them.
func (p *place) kindsOf(spec launcher.Spec) map[string]string {
	return map[string]string{"claim": p.Path("persistentvolumeclaims/" + objectName(spec)),
		"service": p.Path("services/" + objectName(spec)),
		"set":     "/apis/apps/v1/namespaces/" + p.Name + "/statefulsets/" + objectName(spec)}
}

func (p *place) secretOf(spec launcher.Spec) string { return p.Path("secrets/" + objectName(spec)) }

// merge changes an object as an administrator of the cluster does.
func (p *place) merge(t *testing.T, path string, change map[string]any) {
	p.Do(t, http.MethodPatch, path, change, nil)
}

// hold replaces the finalizers of an object: with any, it stays when it is deleted.
func (p *place) hold(t *testing.T, path string, finalizers ...string) {
	p.merge(t, path, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
}

// remove destroys a server, of which nothing is left then.
func (p *place) remove(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
	require.NoError(t, destroy(t, l, spec.ID))
	require.Empty(t, uid(t, p, spec), "the pod, whatever its labels")
	p.holdsNothing(t)
}

// readyServer returns a server that the launcher believes to have been ready, with a pod that no node runs.
func (p *place) readyServer(t *testing.T, l launcher.Launcher) launcher.Spec {
	spec := newSpec()
	spec.Version = "11.8"
	p.ready(t, l, spec)
	return spec
}

// newServer makes a place without a node, a launcher, and a server as of readyServer.
func newServer(t *testing.T) (p *place, l launcher.Launcher, spec launcher.Spec) {
	p = newObjects(t)
	l = p.open(t)
	return p, l, p.readyServer(t, l)
}

// begun has a server launched until it has a pod that no node runs.
func (p *place) begun(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
	awaitSentence(t, "a launch", "Waiting for a node", launching(l, spec))
	p.awaitNext(t, spec, "")
}

func (p *place) ready(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
	p.begun(t, l, spec)
	p.restate(t, spec, map[string]any{"phase": "ready", "host": objectName(spec) + "." + p.Name + ".svc", "port": 3306,
		"admin_host": "127.0.0.1", "admin_port": 1})
}

// stateOf is what the broker has recorded of a server.
func (p *place) stateOf(t *testing.T, spec launcher.Spec) (state map[string]any) {
	text := p.get(t, p.secretOf(spec)).Metadata.Annotations["mysql-broker/state"]
	require.NoError(t, json.Unmarshal([]byte(text), &state))
	return state
}

// restate changes what the broker has recorded of a server.
func (p *place) restate(t *testing.T, spec launcher.Spec, change map[string]any) {
	state := p.stateOf(t, spec)
	maps.Copy(state, change)
	text, err := json.Marshal(state)
	require.NoError(t, err)
	p.annotate(t, spec, map[string]any{"mysql-broker/state": string(text)})
}

func (p *place) annotate(t *testing.T, spec launcher.Spec, annotations map[string]any) {
	p.merge(t, p.secretOf(spec), map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// runs has the pod of a server look as if a node ran these containers.
func (p *place) runs(t *testing.T, spec launcher.Spec, containers ...map[string]any) {
	for _, c := range containers {
		if c["resources"] == nil { // a kubelet that can resize pods reports them
			c["resources"] = map[string]any{}
		}
		maps.Copy(c, map[string]any{"image": "x", "imageID": "x", "ready": true, "restartCount": 0, "containerID": "test://1",
			"state": map[string]any{"running": map[string]any{"startedAt": ago(0)}}})
	}
	p.status(t, spec, map[string]any{"phase": "Running", "containerStatuses": containers,
		"conditions": []any{condition("PodScheduled", "True", "", 0)}})
}

// status changes the status of the pod of a server, as its node does.
func (p *place) status(t *testing.T, spec launcher.Spec, change map[string]any) {
	p.merge(t, p.Path("pods/"+podName(spec)+"/status"), map[string]any{"status": change})
}

// report has the status of the pod of a server contain these conditions alone.
func (p *place) report(t *testing.T, spec launcher.Spec, conditions ...map[string]string) {
	p.status(t, spec, map[string]any{"conditions": conditions})
}

func condition(kind, status, reason string, since time.Duration) map[string]string {
	return map[string]string{"type": kind, "status": status, "reason": reason, "lastTransitionTime": ago(since)}
}

// A removal leaves nothing, even if somebody took the objects' owner away, or deleted the Secret without what it owns. The
// error of one that cannot end names what is left, and who holds it.
func TestDestroyWithoutOwner(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, held string // what a finalizer holds
		change     func(p *place, t *testing.T, spec launcher.Spec)
	}{
		{"held", "claim and pod", func(*place, *testing.T, launcher.Spec) {}},
		{"owners removed", "", func(p *place, t *testing.T, spec launcher.Spec) {
			for _, path := range p.kindsOf(spec) {
				p.merge(t, path, map[string]any{"metadata": map[string]any{"ownerReferences": nil}})
			}
		}},
		{"Secret deleted", "", (*place).orphan},
		{"Secret deleted, managers removed", "", func(p *place, t *testing.T, spec launcher.Spec) {
			p.orphan(t, spec)
			for _, path := range p.kindsOf(spec) {
				p.merge(t, path, map[string]any{"metadata": map[string]any{"managedFields": []any{map[string]any{}}}})
			}
		}},
		{"Secret deleted, claim terminating", "claim", func(p *place, t *testing.T, spec launcher.Spec) {
			p.orphan(t, spec)
			for _, path := range p.kindsOf(spec) {
				p.Do(t, http.MethodDelete, path, nil, nil)
			}
			p.expectNone(t, p.Path("pods/"+podName(spec)))
		}},
		{"Secret deleted, pod label removed", "", func(p *place, t *testing.T, spec launcher.Spec) {
			p.labelPod(t, spec, serverLabel, nil)
			p.orphan(t, spec)
		}},
		{"pod label removed", "pod", func(p *place, t *testing.T, spec launcher.Spec) {
			p.labelPod(t, spec, serverLabel, nil)
		}},
		{"pod label changed", "", func(p *place, t *testing.T, spec launcher.Spec) {
			p.labelPod(t, spec, serverLabel, "another")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p, l, spec := newServer(t)
			held := map[string]string{"claim": p.kindsOf(spec)["claim"], "pod": p.Path("pods/" + podName(spec))}
			maps.DeleteFunc(held, func(kind, _ string) bool { return !strings.Contains(test.held, kind) })
			for _, path := range held {
				p.hold(t, path, "test.example.com/stays")
			}
			test.change(p, t, spec)
			if len(held) > 0 {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err := l.Destroy(ctx, spec.ID)
				for _, path := range held {
					assert.ErrorContains(t, err, filepath.Base(path)+" (held by test.example.com/stays)")
				}
				ctx, stop := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { stop(errors.New("the broker is stopping")) })
				err = l.Destroy(ctx, spec.ID)
				require.ErrorContains(t, err, "the broker is stopping")
				assert.NotContains(t, err.Error(), "left:", "what it asked for after that")
			}
			for _, path := range held {
				p.hold(t, path)
			}
			p.remove(t, l, spec)
		})
	}
}

// labelPod changes a label of the pod of a server, or removes it if value is nil. Without that of the server, the pod's
// StatefulSet releases it.
func (p *place) labelPod(t *testing.T, spec launcher.Spec, label string, value any) {
	path := p.Path("pods/" + podName(spec))
	p.merge(t, path, map[string]any{"metadata": map[string]any{"labels": map[string]any{label: value}}})
	testdrive.Eventually(t, "the release of the pod", func() bool {
		return label != serverLabel || len(p.get(t, path).Metadata.OwnerReferences) == 0
	})
}

// orphan deletes the Secret of a server, and nothing that it owns.
func (p *place) orphan(t *testing.T, spec launcher.Spec) {
	p.Do(t, http.MethodDelete, p.secretOf(spec), map[string]any{"apiVersion": "v1", "kind": "DeleteOptions",
		"propagationPolicy": "Orphan"}, nil)
	testdrive.Eventually(t, "the end of the Secret", func() bool {
		return len(p.list(t, p.Path("secrets")+"?labelSelector=mysql-broker/server")) == 0
	})
}

// A removal that made the Secret again and was cut off before it deleted it can be ended by the removal of unused servers.
func TestDestroyWithoutOwnerCutOff(t *testing.T) {
	t.Parallel()
	p, l, spec := newServer(t)
	p.orphan(t, spec)
	cut := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		if r.Method == http.MethodDelete {
			refuse(w, http.StatusForbidden, "Forbidden", "cut off")
			return
		}
		pass(w, r)
	})
	require.ErrorContains(t, cut.open(t).Destroy(t.Context(), spec.ID), "cut off")
	require.NoError(t, l.DestroyUnused(t.Context(), spec.ID))
	p.holdsNothing(t)
}

// A launch takes over no object that somebody else has made under the name, and its removal leaves that alone.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	selector := map[string]string{"app": "foreign"}
	restricted := map[string]any{"allowPrivilegeEscalation": false, "runAsNonRoot": true,
		"capabilities": map[string]any{"drop": []string{"ALL"}}, "seccompProfile": map[string]string{"type": "RuntimeDefault"}}
	foreign := map[string]any{"containers": []any{map[string]any{"name": "c", "image": "x", "securityContext": restricted}}}
	set := func(replicas int) map[string]any {
		return map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": map[string]any{
			"replicas": replicas, "serviceName": "foreign", "selector": map[string]any{"matchLabels": selector},
			"template": map[string]any{"metadata": map[string]any{"labels": selector}, "spec": foreign}}}
	}
	for kind, object := range map[string]map[string]any{
		"claim": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": map[string]any{
			"accessModes": []string{"ReadWriteOnce"},
			"resources":   map[string]any{"requests": map[string]string{"storage": "1Gi"}}}},
		"service": {"apiVersion": "v1", "kind": "Service", "spec": map[string]any{"selector": selector,
			"ports": []any{map[string]any{"name": "mysql", "port": 3306}}}},
		"set": set(0), "set with a pod": set(1),
		"pod": {"apiVersion": "v1", "kind": "Pod", "spec": foreign},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newObjects(t)
			l, spec := p.open(t), newSpec()
			paths := p.kindsOf(spec)
			paths["set with a pod"], paths["pod"] = paths["set"], p.Path("pods/"+podName(spec))
			path := paths[kind]
			object["metadata"] = map[string]any{"name": filepath.Base(path)}
			p.Do(t, http.MethodPost, filepath.Dir(path), object, nil)
			if strings.Contains(kind, "pod") {
				testdrive.Eventually(t, "a pod", func() bool { return uid(t, p, spec) != "" })
			}
			err := answers(t, launching(l, spec), launcher.GiveUp, "The servers of this plan cannot be run here just now.")
			assert.ErrorContains(t, err, "is not the broker's")
			require.NoError(t, destroy(t, l, spec.ID))
			p.Do(t, http.MethodGet, path, nil, nil)
			p.holdsNothing(t)
		})
	}
}

// Webhooks and limit ranges add containers and quantities to pods. A resize changes mysqld's, and waits for nobody else's.
func TestResizeBesideSidecar(t *testing.T) {
	t.Parallel()
	p, l, spec := newServer(t)
	set := p.kindsOf(spec)["set"]
	containers := p.get(t, set).Spec.Template.Spec.Containers
	restricted := containers[0]["securityContext"]
	containers = append([]map[string]any{{"name": "sidecar", "image": "x", "securityContext": restricted}}, containers...)
	containers[1]["resources"] = map[string]any{"requests": map[string]string{"memory": "256Mi", "cpu": "100m"},
		"limits": map[string]string{"memory": "256Mi", "cpu": "200m"}}
	p.merge(t, set, map[string]any{"spec": map[string]any{"template": map[string]any{
		"spec": map[string]any{"containers": containers}}}})
	before := uid(t, p, spec)
	p.Do(t, http.MethodDelete, p.Path("pods/"+podName(spec)), nil, nil)
	p.awaitNext(t, spec, before)
	has := func(memory string) map[string]any {
		return map[string]any{"name": "mysqld", "resources": map[string]any{
			"requests": map[string]string{"memory": memory, "cpu": "100m"}, "limits": map[string]string{"memory": memory, "cpu": "200m"}}}
	}
	p.runs(t, spec, map[string]any{"name": "sidecar"}, has("256Mi"))
	answers(t, enlarging(l, spec), launcher.Wait, "Changing the server's memory")
	assert.Equal(t, map[string]map[string]string{"sidecar": nil, "mysqld": {"memory": "512Mi", "cpu": "200m"}},
		p.limitsOf(t, spec))
	p.runs(t, spec, map[string]any{"name": "sidecar"}, has("512Mi"))
	_, err := enlarging(l, spec)(t.Context())
	assert.ErrorContains(t, err, "connection refused", "what follows the change of the memory is a login")
}

// A server that is to run and has no pod is in trouble: somebody has scaled its StatefulSet, or Kubernetes may make none.
func TestServerWithoutPod(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	l := p.open(t)
	spec, suspended, unfinished := p.readyServer(t, l), p.readyServer(t, l), newSpec()
	do(t, suspending(l, suspended))
	awaitSentence(t, "a launch", "Waiting for a node", launching(l, unfinished))
	sees := p.observers(t)
	scale := func(spec launcher.Spec, replicas int) {
		p.merge(t, p.kindsOf(spec)["set"], map[string]any{"spec": map[string]any{"replicas": replicas}})
	}
	scale(unfinished, 0)
	sees(nil)
	scale(spec, 0)
	sees(map[string]launcher.Trouble{spec.ID: launcher.NoPod})
	scale(spec, 1)
	sees(nil)
}

// A change of the plan creates a StatefulSet again that somebody has deleted.
func TestStatefulSetDeleted(t *testing.T) {
	t.Parallel()
	p, l, spec := newServer(t)
	p.Do(t, http.MethodDelete, p.kindsOf(spec)["set"], nil, nil)
	p.expectNone(t, p.Path("pods/"+podName(spec)))
	awaitSentence(t, "a resize", "Restarting mysqld with its new size", enlarging(l, spec))
	testdrive.Eventually(t, "a pod", func() bool { return uid(t, p, spec) != "" })
}

// A Secret whose labels somebody has removed or changed is still the server's. What says whether the server was kept may
// have been removed: then it counts as kept.
func TestMetadataRemoved(t *testing.T) {
	t.Parallel()
	p, l, spec := newServer(t)
	for name, labels := range map[string]map[string]any{
		"all":       nil,
		"manager's": {"app.kubernetes.io/managed-by": nil},
		"server's":  {"mysql-broker/server": nil},
		"another's": {"mysql-broker/server": "another"},
	} {
		p.merge(t, p.secretOf(spec), map[string]any{"metadata": map[string]any{"labels": labels}})
		_, err := l.Endpoint(t.Context(), spec.ID)
		require.NoError(t, err, name)
		all, err := l.List(t.Context())
		require.NoError(t, err, name)
		assert.Equal(t, []string{spec.ID}, all, name)
	}
	require.NoError(t, l.Keep(t.Context(), spec.ID))
	p.annotate(t, spec, map[string]any{"mysql-broker/state": nil, "mysql-broker/kept": nil})
	assert.ErrorContains(t, l.DestroyUnused(t.Context(), spec.ID), "has no state that can be read")
	p.Do(t, http.MethodGet, p.kindsOf(spec)["claim"], nil, nil)
	p.remove(t, l, spec)
}

// Nothing changes what somebody else has made as a copy of another server's Secret.
func TestCopyOfSecret(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	l, spec := p.open(t), newSpec()
	p.Do(t, http.MethodPost, p.Path("secrets"), map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
		"name": objectName(spec), "labels": map[string]string{managerLabel: "mysql-broker", serverLabel: "another"},
		"annotations": map[string]string{"mysql-broker/state": `{"phase": "ready"}`}}}, nil)
	_, err := l.Endpoint(t.Context(), spec.ID)
	assert.ErrorContains(t, err, "is not the broker's")
	assert.ErrorContains(t, l.Destroy(t.Context(), spec.ID), "is not the broker's")
	p.Do(t, http.MethodGet, p.secretOf(spec), nil, nil)
}

// Frequent writes by others do not block a change of the Secret. If nobody may change it, the error says so.
func TestSecretThatOthersChange(t *testing.T) {
	t.Parallel()
	p, _, spec := newServer(t)
	l := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		if r.Method == http.MethodPatch && r.URL.Path == p.secretOf(spec) {
			change := map[string]any{"metadata": map[string]any{"annotations": map[string]string{"example.com/seen": rand.Text()}}}
			status, answer, err := objects.Call(t.Context(), http.MethodPatch, r.URL.Path, change)
			assert.True(t, err == nil && status == http.StatusOK, "%d %s %v", status, answer, err)
		}
		pass(w, r)
	}).open(t)
	ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
	defer cancel()
	require.NoError(t, l.Record(ctx, spec.ID, "first"))
	require.NoError(t, l.Record(ctx, spec.ID, "second"))
	records, err := l.Records(ctx)
	assert.NoError(t, err)
	assert.Equal(t, map[string]string{spec.ID: "second"}, records)
	p.merge(t, p.secretOf(spec), map[string]any{"immutable": true})
	err = l.ChangeAdminPassword(ctx, spec.ID, rand.Text(), func(context.Context) error { return nil })
	assert.ErrorContains(t, err, objectName(spec))
	assert.ErrorContains(t, err, "field is immutable")
	p.remove(t, l, spec)
}

// Conflicts without end do not become requests without pause.
func TestConflicts(t *testing.T) {
	t.Parallel()
	p, _, spec := newServer(t)
	var sent atomic.Int64
	l := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		if r.Method == http.MethodPatch {
			sent.Add(1)
			refuse(w, http.StatusConflict, "Conflict", "the object has been modified")
			return
		}
		pass(w, r)
	}).open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := l.Keep(ctx, spec.ID)
	assert.True(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
	assert.Less(t, sent.Load(), int64(20), "requests within a second")
}

// reachBy has applications reach servers so; with node ports, on the host.
func (p *place) reachBy(access kubernetes.Access, host string) {
	p.cfg.Service, p.cfg.Host = access, ""
	if access == kubernetes.NodePort {
		p.cfg.Host = host
	}
}

// balance gives the load balancer of a server an address.
func (p *place) balance(t *testing.T, spec launcher.Spec, address map[string]string) {
	p.merge(t, p.kindsOf(spec)["service"]+"/status", map[string]any{"status": map[string]any{
		"loadBalancer": map[string]any{"ingress": []any{address}}}})
}

// A Service that somebody has changed or deleted is put back by the next operation. It leads to the server's own pod, even
// if the StatefulSet has more. The address of a ready server stays what it is if operators later choose another way to
// reach servers.
func TestServiceOfOtherConfiguration(t *testing.T) {
	t.Parallel()
	type spec struct {
		Type     string
		Selector map[string]string
		Ports    []struct {
			NodePort   int
			TargetPort any
		}
	}
	for _, test := range []struct {
		of, configured kubernetes.Access
		kind           string
	}{
		{kubernetes.InCluster, kubernetes.InCluster, "ClusterIP"},
		{kubernetes.InCluster, kubernetes.NodePort, "ClusterIP"},
		{kubernetes.InCluster, kubernetes.LoadBalancer, "ClusterIP"},
		{kubernetes.NodePort, kubernetes.InCluster, "NodePort"},
		{kubernetes.LoadBalancer, kubernetes.InCluster, "LoadBalancer"},
	} {
		t.Run(string(test.of)+" to "+string(test.configured), func(t *testing.T) {
			t.Parallel()
			p := newObjects(t)
			p.reachBy(test.of, "192.0.2.1")
			l, server := p.open(t), newSpec()
			service := p.kindsOf(server)["service"]
			read := func() spec {
				var found struct{ Spec spec }
				p.Do(t, http.MethodGet, service, nil, &found)
				return found.Spec
			}
			if test.of == kubernetes.LoadBalancer {
				awaitSentence(t, "a launch", "Waiting for the load balancer's address", launching(l, server))
				p.balance(t, server, map[string]string{"ip": "192.0.2.2"})
			}
			p.ready(t, l, server)
			before := read()
			require.Equal(t, test.kind, before.Type)
			require.Equal(t, map[string]string{"mysql-broker/server": server.ID,
				"statefulset.kubernetes.io/pod-name": podName(server)}, before.Selector)
			require.Equal(t, "mysql", before.Ports[0].TargetPort)
			address := map[string]any{}
			switch test.of {
			case kubernetes.NodePort:
				address = map[string]any{"host": "192.0.2.1", "port": before.Ports[0].NodePort}
			case kubernetes.LoadBalancer:
				address = map[string]any{"host": "192.0.2.2"}
			}
			p.restate(t, server, address)
			p.runs(t, server, map[string]any{"name": "mysqld"})
			p.reachBy(test.configured, "192.0.2.1")
			l = p.open(t)
			for _, change := range []string{`{}`, // which needs no correction
				`{"selector": {"mysql-broker/server": "another"}}`, `{"selector": {"added": "label"}}`,
				`{"ports": [{"name": "mysql", "port": 3306, "targetPort": 1}]}`} {
				p.merge(t, service, map[string]any{"spec": json.RawMessage(change)})
				awaitSentence(t, "a resize to the same size", "Starting mysqld", resizing(l, server))
				assert.Equal(t, before, read())
			}
			p.Do(t, http.MethodDelete, service, nil, nil)
			awaitSentence(t, "a resize to the same size", "Starting mysqld", resizing(l, server))
			after := read()
			if test.of == kubernetes.LoadBalancer {
				after.Ports = before.Ports // it has another node port, which nobody uses
			}
			assert.Equal(t, before, after, "deleted")
		})
	}
}

// A broker that was paused after it read the pod changes no Service once another one has continued its work, and one
// that polls does not write.
func TestServicePaused(t *testing.T) {
	t.Parallel()
	p, heir, spec := newServer(t)
	p.runs(t, spec, map[string]any{"name": "mysqld"})
	service := p.kindsOf(spec)["service"]
	var writes atomic.Int64
	meanwhile := func() {}
	l := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		switch {
		case r.URL.Path == service && r.Method == http.MethodGet: // it has read the pod
			meanwhile()
		case r.URL.Path == service:
			writes.Add(1)
		}
		pass(w, r)
	}).open(t)
	polls := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := l.Launch(ctx, spec, func(string) {})
		return err
	}
	require.Error(t, polls(), "no mysqld runs")
	assert.Zero(t, writes.Load(), "writes to a Service that is right")
	changed := map[string]any{"spec": map[string]any{"selector": map[string]any{"mysql-broker/server": "another"}}}
	p.merge(t, service, changed)
	meanwhile = func() { do(t, suspending(heir, spec)) }
	assert.ErrorContains(t, polls(), "another broker has continued its work")
	assert.Zero(t, writes.Load(), "writes to the Service of a server that another broker has suspended")
}
