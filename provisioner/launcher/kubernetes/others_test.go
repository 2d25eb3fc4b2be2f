package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/mysqld"
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
	t.Helper()
	p.Do(t, http.MethodPatch, path, change, nil)
}

// readyServer returns a server that the launcher believes to have been ready, with a pod that no node runs.
func (p *place) readyServer(t *testing.T, l launcher.Launcher) launcher.Spec {
	t.Helper()
	spec := newSpec()
	p.ready(t, l, spec)
	return spec
}

func (p *place) ready(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
	t.Helper()
	awaitSentence(t, "a launch", "Waiting for a node", launching(l, spec))
	testdrive.Eventually(t, limits.Stuck, "a pod", func() bool { return uid(t, p, spec) != "" })
	var secret struct {
		Metadata struct{ Annotations map[string]string }
	}
	p.Do(t, http.MethodGet, p.secretOf(spec), nil, &secret)
	state := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(secret.Metadata.Annotations["mysql-broker/state"]), &state))
	maps.Copy(state, map[string]any{"phase": "ready", "host": objectName(spec) + "." + p.Name + ".svc", "port": 3306,
		"admin_host": "127.0.0.1", "admin_port": 1})
	text, err := json.Marshal(state)
	require.NoError(t, err)
	p.annotate(t, spec, map[string]any{"mysql-broker/state": string(text)})
}

func (p *place) annotate(t *testing.T, spec launcher.Spec, annotations map[string]any) {
	t.Helper()
	p.merge(t, p.secretOf(spec), map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// runs has the pod of a server look as if a node ran these containers.
func (p *place) runs(t *testing.T, spec launcher.Spec, containers ...map[string]any) {
	t.Helper()
	for _, c := range containers {
		if c["resources"] == nil { // a kubelet that can resize pods reports them
			c["resources"] = map[string]any{}
		}
		maps.Copy(c, map[string]any{"image": "x", "imageID": "x", "ready": true, "restartCount": 0, "containerID": "test://1",
			"state": map[string]any{"running": map[string]any{"startedAt": time.Now().UTC().Format(time.RFC3339)}}})
	}
	p.merge(t, p.Path("pods/"+podName(spec)+"/status"), map[string]any{"status": map[string]any{"phase": "Running",
		"conditions": []any{map[string]string{"type": "PodScheduled", "status": "True"}}, "containerStatuses": containers}})
}

// If the volume of a server that was ready is gone, no empty one takes its place.
func TestVolumeIsGone(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	l := p.open(t)
	spec := p.readyServer(t, l)
	paths := p.kindsOf(spec)
	p.Do(t, http.MethodDelete, paths["claim"], nil, nil)
	testdrive.Eventually(t, limits.Stuck, "the end of the claim", func() bool { return len(p.claims(t)) == 0 })
	larger := spec
	larger.StorageMB *= 2
	_, err := l.Resize(t.Context(), larger, func(string) {})
	says(t, err, launcher.GiveUp, "The volume of this server is gone.")
	assert.ErrorContains(t, err, "PersistentVolumeClaim "+objectName(spec))
	p.Do(t, http.MethodDelete, paths["set"], nil, nil)
	testdrive.Eventually(t, limits.Stuck, "the end of the pod", func() bool { return uid(t, p, spec) == "" })
	_, err = l.Launch(t.Context(), spec, func(string) {})
	says(t, err, launcher.GiveUp, "The volume of this server is gone.")
	assert.Empty(t, p.claims(t), "claims that were made")
	require.NoError(t, destroy(t, l, spec.ID))
	p.holdsNothing(t)
}

// While somebody is deleting a server's volume, only its pod keeps the data: no operation ends the pod.
func TestVolumeThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	p.cfg.Images = append(p.cfg.Images, kubernetes.Image{Flavour: mysqld.MariaDB, Version: "12.0", Name: "test/later"})
	oldest := *p
	oldest.cfg.Images = p.cfg.Images[:1]
	l := p.open(t)
	spec := p.readyServer(t, oldest.open(t))
	paths := p.kindsOf(spec)
	p.merge(t, paths["claim"], map[string]any{"metadata": map[string]any{"finalizers": []string{"test.example.com/held"}}})
	p.Do(t, http.MethodDelete, paths["claim"], nil, nil)
	before := uid(t, p, spec)
	restarts := spec
	restarts.BinaryLogs = true
	_, err := l.Resize(t.Context(), restarts, func(string) {})
	says(t, err, launcher.GiveUp, "The volume of this server is being deleted.")
	err = l.Suspend(t.Context(), spec.ID)
	says(t, err, launcher.GiveUp, "The volume of this server is being deleted.")
	later := spec
	later.Version = "12.0"
	_, err = l.(launcher.Upgrader).Upgrade(t.Context(), later, func(string) {}, func(string) {})
	says(t, err, launcher.GiveUp, "The volume of this server is being deleted.")
	assert.Equal(t, before, uid(t, p, spec), "the pod")
	p.merge(t, paths["claim"], map[string]any{"metadata": map[string]any{"finalizers": nil}})
	require.NoError(t, destroy(t, l, spec.ID))
	p.holdsNothing(t)
}

// claims are the names of the claims in the namespace.
func (p *place) claims(t *testing.T) (names []string) {
	t.Helper()
	var all struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	p.Do(t, http.MethodGet, p.Path("persistentvolumeclaims"), nil, &all)
	for _, c := range all.Items {
		names = append(names, c.Metadata.Name)
	}
	return names
}

// A removal leaves nothing, even if somebody took the objects' owner away, or deleted the Secret without what it owns.
func TestDestroyWithoutOwner(t *testing.T) {
	t.Parallel()
	for name, orphan := range map[string]func(t *testing.T, p *place, spec launcher.Spec){
		"owners removed": func(t *testing.T, p *place, spec launcher.Spec) {
			for _, path := range p.kindsOf(spec) {
				p.merge(t, path, map[string]any{"metadata": map[string]any{"ownerReferences": nil}})
			}
		},
		"Secret deleted": func(t *testing.T, p *place, spec launcher.Spec) {
			p.Do(t, http.MethodDelete, p.secretOf(spec), map[string]any{"apiVersion": "v1", "kind": "DeleteOptions",
				"propagationPolicy": "Orphan"}, nil)
			testdrive.Eventually(t, limits.Stuck, "the end of the Secret", func() bool {
				var all struct{ Items []any }
				p.Do(t, http.MethodGet, p.Path("secrets")+"?labelSelector=mysql-broker/server", nil, &all)
				return len(all.Items) == 0
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newObjects(t)
			l := p.open(t)
			spec := p.readyServer(t, l)
			orphan(t, p, spec)
			require.NoError(t, destroy(t, l, spec.ID))
			p.holdsNothing(t)
		})
	}
}

// A launch takes over no object that somebody else has made under the name, and its removal leaves that alone.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	selector := map[string]string{"app": "foreign"}
	for kind, object := range map[string]map[string]any{
		"claim": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": map[string]any{"accessModes": []string{"ReadWriteOnce"},
			"resources": map[string]any{"requests": map[string]string{"storage": "1Gi"}}}},
		"service": {"apiVersion": "v1", "kind": "Service", "spec": map[string]any{"selector": selector,
			"ports": []any{map[string]any{"name": "mysql", "port": 3306}}}},
		"set": {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": map[string]any{"replicas": 0, "serviceName": "foreign",
			"selector": map[string]any{"matchLabels": selector}, "template": map[string]any{
				"metadata": map[string]any{"labels": selector},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "x"}}}}}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newObjects(t)
			l, spec := p.open(t), newSpec()
			object["metadata"] = map[string]any{"name": objectName(spec)}
			path := p.kindsOf(spec)[kind]
			p.Do(t, http.MethodPost, strings.TrimSuffix(path, "/"+objectName(spec)), object, nil)
			_, err := l.Launch(t.Context(), spec, func(string) {})
			says(t, err, launcher.GiveUp, "The servers of this plan cannot be run here just now.")
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
	p := newObjects(t)
	l := p.open(t)
	spec := p.readyServer(t, l)
	set := p.kindsOf(spec)["set"]
	var found struct {
		Spec struct {
			Template struct {
				Spec struct{ Containers []map[string]any }
			}
		}
	}
	p.Do(t, http.MethodGet, set, nil, &found)
	containers := found.Spec.Template.Spec.Containers
	restricted := containers[0]["securityContext"]
	containers = append([]map[string]any{{"name": "sidecar", "image": "x", "securityContext": restricted}}, containers...)
	containers[1]["resources"] = map[string]any{"requests": map[string]string{"memory": "256Mi", "cpu": "100m"},
		"limits": map[string]string{"memory": "256Mi", "cpu": "200m"}}
	p.merge(t, set, map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers}}}})
	before := uid(t, p, spec)
	p.Do(t, http.MethodDelete, p.Path("pods/"+podName(spec)), nil, nil)
	testdrive.Eventually(t, limits.Stuck, "another pod", func() bool {
		now := uid(t, p, spec)
		return now != "" && now != before
	})
	has := func(memory string) map[string]any {
		return map[string]any{"name": "mysqld", "resources": map[string]any{
			"requests": map[string]string{"memory": memory, "cpu": "100m"}, "limits": map[string]string{"memory": memory, "cpu": "200m"}}}
	}
	p.runs(t, spec, map[string]any{"name": "sidecar"}, has("256Mi"))
	larger := spec
	larger.MemoryMB = 512
	_, err := l.Resize(t.Context(), larger, func(string) {})
	says(t, err, launcher.Wait, "Changing the server's memory")
	var pod struct {
		Spec struct {
			Containers []struct {
				Name      string
				Resources struct{ Limits map[string]string }
			}
		}
	}
	p.Do(t, http.MethodGet, p.Path("pods/"+podName(spec)), nil, &pod)
	require.Len(t, pod.Spec.Containers, 2)
	assert.Equal(t, "512Mi", pod.Spec.Containers[1].Resources.Limits["memory"], "the limit of %s", pod.Spec.Containers[1].Name)
	p.runs(t, spec, map[string]any{"name": "sidecar"}, has("512Mi"))
	_, err = l.Resize(t.Context(), larger, func(string) {})
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
	watching := p.cuttingWatches(t)
	watching.cfg.Supervise, watching.cfg.WatchPause = true, 100*time.Millisecond
	seen := map[string]launcher.Observer{"watched": watching.open(t).(launcher.Observer), "asked": l.(launcher.Observer)}
	sees := func(want map[string]launcher.Trouble) {
		t.Helper()
		for what, l := range seen {
			testdrive.Eventually(t, limits.Stuck, what+" to be so", func() bool {
				troubles, err := l.Troubles(t.Context())
				return err == nil && maps.Equal(troubles, want)
			})
		}
	}
	scale := func(spec launcher.Spec, replicas int) {
		t.Helper()
		p.merge(t, p.kindsOf(spec)["set"], map[string]any{"spec": map[string]any{"replicas": replicas}})
	}
	scale(unfinished, 0)
	sees(map[string]launcher.Trouble{})
	scale(spec, 0)
	sees(map[string]launcher.Trouble{spec.ID: launcher.NoPod})
	scale(spec, 1)
	sees(map[string]launcher.Trouble{})
}

// A change of the plan creates a StatefulSet again that somebody has deleted.
func TestStatefulSetDeleted(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	l := p.open(t)
	spec := p.readyServer(t, l)
	p.Do(t, http.MethodDelete, p.kindsOf(spec)["set"], nil, nil)
	testdrive.Eventually(t, limits.Stuck, "the end of the pod", func() bool { return uid(t, p, spec) == "" })
	spec.MemoryMB *= 2
	awaitSentence(t, "a resize", "Restarting mysqld with its new size", resizing(l, spec))
	testdrive.Eventually(t, limits.Stuck, "a pod", func() bool { return uid(t, p, spec) != "" })
}

// A Secret whose labels somebody has removed is still the server's.
func TestLabelsRemoved(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	l := p.open(t)
	spec := p.readyServer(t, l)
	p.merge(t, p.secretOf(spec), map[string]any{"metadata": map[string]any{"labels": nil}})
	_, err := l.Endpoint(t.Context(), spec.ID)
	require.NoError(t, err)
	all, err := l.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{spec.ID}, all)
	require.NoError(t, destroy(t, l, spec.ID))
	p.holdsNothing(t)
}

// What says whether a server was kept may have been removed: then it counts as kept.
func TestAnnotationsRemoved(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	l := p.open(t)
	spec := p.readyServer(t, l)
	require.NoError(t, l.Keep(t.Context(), spec.ID))
	p.annotate(t, spec, map[string]any{"mysql-broker/state": nil, "mysql-broker/kept": nil})
	assert.ErrorContains(t, l.DestroyUnused(t.Context(), spec.ID), "has no state that can be read")
	p.Do(t, http.MethodGet, p.kindsOf(spec)["claim"], nil, nil)
	require.NoError(t, destroy(t, l, spec.ID))
	p.holdsNothing(t)
}

// The error of a removal that cannot end names what is left, and who holds it.
func TestFinalizerThatStays(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	l := p.open(t)
	spec := p.readyServer(t, l)
	claim := p.kindsOf(spec)["claim"]
	p.merge(t, claim, map[string]any{"metadata": map[string]any{"finalizers": []string{"test.example.com/stays"}}})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	assert.ErrorContains(t, l.Destroy(ctx, spec.ID),
		"persistentvolumeclaims "+objectName(spec)+" (held by test.example.com/stays)")
	p.merge(t, claim, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	require.NoError(t, destroy(t, l, spec.ID))
	p.holdsNothing(t)
}

// Conflicts without end do not become requests without pause.
func TestConflicts(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	spec := p.readyServer(t, p.open(t))
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

// A Service that somebody has changed or deleted is put back by the next operation. It leads to the server's own pod, even
// if the StatefulSet has more.
func TestServiceChanged(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	l := p.open(t)
	spec := p.readyServer(t, l)
	service := p.kindsOf(spec)["service"]
	p.runs(t, spec, map[string]any{"name": "mysqld"})
	leads := func(what string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := l.Launch(ctx, spec, func(string) {})
		require.Error(t, err, "no mysqld runs")
		var found struct {
			Spec struct{ Selector map[string]string }
		}
		p.Do(t, http.MethodGet, service, nil, &found)
		assert.Equal(t, map[string]string{"mysql-broker/server": spec.ID,
			"statefulset.kubernetes.io/pod-name": podName(spec)}, found.Spec.Selector, what)
		var pods struct{ Items []any }
		p.Do(t, http.MethodGet, p.Path("pods")+"?labelSelector=statefulset.kubernetes.io/pod-name="+podName(spec), nil, &pods)
		assert.Len(t, pods.Items, 1, "pods that the Service leads to")
	}
	p.merge(t, service, map[string]any{"spec": map[string]any{"selector": map[string]any{"mysql-broker/server": "another"}}})
	leads("changed")
	p.Do(t, http.MethodDelete, service, nil, nil)
	leads("deleted")
	leads("deleted, again")
}
