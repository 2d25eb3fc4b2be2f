package kubernetes_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/test/testdrive"
)

const admission = "admissionregistration.k8s.io"

// enact makes a policy that acts on the objects of the namespace, until end is called. How the policy acts is in spec,
// and in binding, which may be nil. The API server learns of both by a watch.
func (p *place) enact(t *testing.T, kind string, spec, binding map[string]any) (end func()) {
	create := func(kind string, spec map[string]any) (end func()) {
		path := "/apis/" + admission + "/v1/" + strings.Replace(strings.ToLower(kind)+"s", "policys", "policies", 1)
		p.Do(t, http.MethodPost, path, map[string]any{"apiVersion": admission + "/v1", "kind": kind,
			"metadata": map[string]string{"name": p.Name}, "spec": spec}, nil)
		t.Cleanup(func() { _, _, _ = objects.Call(context.Background(), http.MethodDelete, path+"/"+p.Name, nil) })
		return func() { p.Do(t, http.MethodDelete, path+"/"+p.Name, nil, nil) }
	}
	create(kind, spec)
	bound := map[string]any{"policyName": p.Name, "matchResources": map[string]any{
		"namespaceSelector": map[string]any{"matchLabels": map[string]string{"kubernetes.io/metadata.name": p.Name}}}}
	maps.Copy(bound, binding)
	return create(kind+"Binding", bound)
}

// rule matches an operation such as "CREATE pods".
func rule(operation string) any {
	operation, resource, _ := strings.Cut(operation, " ")
	return map[string]any{"apiGroups": []string{"", "apps"}, "apiVersions": []string{"v1"},
		"operations": []string{operation}, "resources": []string{resource}}
}

// forbid has a policy of the cluster refuse some operation, such as "CREATE pods", and the deletion of volumes in the
// namespace, until allow is called.
func (p *place) forbid(t *testing.T, spec launcher.Spec, operation string) (allow func()) {
	end := p.enact(t, "ValidatingAdmissionPolicy", map[string]any{
		"matchConstraints": map[string]any{"resourceRules": []any{rule(operation), rule("DELETE persistentvolumeclaims")}},
		"validations":      []any{map[string]string{"expression": "false", "message": "ask the storage team"}}},
		map[string]any{"validationActions": []string{"Deny"}})
	await := func(what string, status int) {
		testdrive.Eventually(t, what, func() bool { // the API server learns of policies by a watch
			got, _, err := objects.Call(t.Context(), http.MethodDelete, p.kindsOf(spec)["claim"]+"?dryRun=All", nil)
			return err == nil && got == status
		})
	}
	await("the policy", http.StatusUnprocessableEntity)
	return func() {
		end()
		await("the end of the policy", http.StatusOK)
	}
}

// If the cluster refuses the pod of an upgrade, the upgrade fails. What puts the earlier data back says why there is no
// pod, and waits, also for the pod of a server that has its earlier data: its task is the last one. Once the cluster
// allows it, the server has a pod again.
func TestPodsForbidden(t *testing.T) {
	t.Parallel()
	p, _, spec := newServer(t)
	allow := p.forbid(t, spec, "CREATE pods")
	patient, hasty := p.open(t), p.hasty().open(t)
	full := p.edited(t, func(_, response string) string {
		return strings.ReplaceAll(response, "ask the storage team", "exceeded quota")
	}).open(t)
	reverting := func(l launcher.Launcher) call {
		return func(ctx context.Context) (launcher.Endpoint, error) {
			return l.(launcher.Upgrader).Revert(ctx, spec, func(string) {}, func(string) {})
		}
	}
	p.refused(t, spec)
	awaitSentence(t, "a revert", "There is no room for a dedicated server of this size just now.", reverting(full))
	assert.Contains(t, p.log.String(), "exceeded quota")
	awaitSentence(t, "an upgrade", "Waiting for a node", toLater(patient, spec))
	_, _, err := finish(t, toLater(hasty, spec))
	says(t, err, launcher.GiveUp,
		"The server could not be upgraded to MariaDB 12.0. It continues with MariaDB 11.8 and the earlier data.")
	assert.ErrorContains(t, err, "ask the storage team")
	const sentence = "The servers of this plan cannot be run here just now."
	awaitSentence(t, "a revert", sentence, reverting(hasty))
	awaitSentence(t, "a resize", sentence, resizing(hasty, spec))
	awaitSentence(t, "a launch", sentence, launching(hasty, spec))
	assert.Contains(t, p.log.String(), "ask the storage team")
	allow()
	// Its controller tries ever more seldom, but at once when the object changes.
	p.merge(t, p.kindsOf(spec)["set"], map[string]any{"metadata": map[string]any{"annotations": map[string]string{"test": "now"}}})
	testdrive.Eventually(t, "a pod", func() bool { return uid(t, p, spec) != "" })
	p.remove(t, patient, spec)
}

// Nothing is recorded of an operation that the cluster refuses: the server goes on as it is. The error says who refuses
// it. Once that is allowed, the operation succeeds.
func TestWorkForbidden(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		refused, work string
		call          order
	}{
		{"UPDATE statefulsets", "suspension", suspending},
		{"DELETE pods", "suspension", suspending},
		{"UPDATE statefulsets", "upgrade", toLater},
		{"DELETE pods", "upgrade", toLater},
		{"UPDATE statefulsets", "resize", enlarging},
		{"DELETE pods", "resize", enlarging},
	} {
		t.Run(test.refused+" by "+test.work, func(t *testing.T) {
			t.Parallel()
			p, l, spec := newServer(t)
			before, pod := p.stateOf(t, spec), uid(t, p, spec)
			allow := p.forbid(t, spec, test.refused)
			err := answers(t, test.call(l, spec), launcher.GiveUp, "The servers of this plan cannot be run here just now.")
			assert.ErrorContains(t, err, "ask the storage team")
			state := p.stateOf(t, spec)
			asked, _ := state["resize"].(map[string]any)
			assert.NotContains(t, asked, "recorded", "what only another pod undoes")
			delete(state, "resize")
			delete(state, "works")
			assert.Equal(t, before, state)
			_, err = l.Endpoint(t.Context(), spec.ID)
			assert.NoError(t, err)
			assert.Equal(t, pod, uid(t, p, spec))
			allow()
			testdrive.Eventually(t, "the end of the pod", func() bool { // which a cluster with nodes ends at once
				_, err := test.call(l, spec)(t.Context())
				require.True(t, err == nil || isNotYet(err), "%v", err)
				return uid(t, p, spec) != pod
			})
		})
	}
}

// The error of a removal says who refuses to remove the volume. The removal ends when that is allowed.
func TestVolumeDeletionForbidden(t *testing.T) {
	t.Parallel()
	p, l, spec := newServer(t)
	allow := p.forbid(t, spec, "DELETE persistentvolumeclaims")
	testdrive.Eventually(t, "a removal to say who refuses", func() bool { // a busy API server does not at once
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := l.Destroy(ctx, spec.ID)
		require.Error(t, err)
		t.Log(err)
		return strings.Contains(err.Error(), "persistentvolumeclaims "+objectName(spec)+" (") &&
			strings.Contains(err.Error(), "ask the storage team")
	})
	allow()
	p.remove(t, l, spec)
}

// relabel has a policy of the cluster set a label of all objects of a kind, or remove it if value is "".
func (p *place) relabel(t *testing.T, resource, label, value string) {
	op, condition := fmt.Sprintf("op: 'add', value: %q", value), "has(object.metadata.labels)"
	if value == "" {
		op, condition = "op: 'remove'", fmt.Sprintf("has(object.metadata.labels) && %q in object.metadata.labels", label)
	}
	patch := fmt.Sprintf("[JSONPatch{%s, path: '/metadata/labels/' + jsonpatch.escapeKey(%q)}]", op, label)
	rules := []any{rule("CREATE configmaps")} // to see when the policy acts
	for _, verb := range []string{"CREATE ", "UPDATE "} {
		rules = append(rules, rule(verb+resource))
	}
	p.enact(t, "MutatingAdmissionPolicy", map[string]any{"reinvocationPolicy": "Never", "failurePolicy": "Fail",
		"matchConstraints": map[string]any{"resourceRules": rules},
		"matchConditions":  []any{map[string]string{"name": "labels", "expression": condition}},
		"mutations":        []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]string{"expression": patch}}}}, nil)
	testdrive.Eventually(t, "the policy", func() bool {
		var made object
		p.Do(t, http.MethodPost, p.Path("configmaps")+"?dryRun=All", map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "x", "labels": map[string]string{label: "before"}}}, &made)
		return made.Metadata.Labels[label] == value
	})
}

const managerLabel, serverLabel = "app.kubernetes.io/managed-by", "mysql-broker/server"

// No server is launched if the cluster changes the labels by which the launcher finds it. The error says which. Nothing
// is left of the launch.
func TestLabelsChanged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ resource, label, value string }{
		{"secrets", managerLabel, "another"},
		{"secrets", serverLabel, "another"},
		{"secrets", serverLabel, ""},
		{"pods", managerLabel, "another"},
		{"pods", serverLabel, ""},
	} {
		t.Run(fmt.Sprintf("%s %s %q", test.resource, test.label, test.value), func(t *testing.T) {
			t.Parallel()
			p := newObjects(t)
			l, spec := p.open(t), newSpec()
			p.relabel(t, test.resource, test.label, test.value)
			why := fmt.Sprintf("label %s of %s ", test.label, test.resource)
			_, _, err := finish(t, launching(l, spec))
			says(t, err, launcher.GiveUp, "The servers of this plan cannot be run here just now.")
			assert.ErrorContains(t, err, why)
			err = l.(launcher.Checker).Try(t.Context(), spec)
			if test.resource == "pods" { // which the broker may not create
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, why)
			}
			require.NoError(t, destroy(t, l, spec.ID))
			for path := range maps.Values(p.kindsOf(spec)) {
				p.expectNone(t, path)
			}
			p.expectNone(t, p.secretOf(spec))
			p.expectNone(t, p.Path("pods/"+podName(spec)))
		})
	}
}

// expectNone waits until an object is not there.
func (p *place) expectNone(t *testing.T, path string) {
	testdrive.Eventually(t, "the end of "+path, func() bool {
		status, _, err := objects.Call(t.Context(), http.MethodGet, path, nil)
		return err == nil && status == http.StatusNotFound
	})
}

// A server that exists works on and can be removed when the cluster begins to change labels. Those of objects that the
// launcher finds by their names do not matter.
func TestLabelsChangedLater(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ resource, label string }{
		{"secrets", managerLabel},
		{"secrets", serverLabel},
		{"persistentvolumeclaims", managerLabel},
		{"services", managerLabel},
		{"statefulsets", managerLabel},
	} {
		t.Run(test.resource+" "+test.label, func(t *testing.T) {
			t.Parallel()
			p, l, spec := newServer(t)
			p.relabel(t, test.resource, test.label, "another")
			p.annotate(t, spec, map[string]any{"test": "changed"})
			_, err := l.Endpoint(t.Context(), spec.ID)
			require.NoError(t, err)
			awaitSentence(t, "a resize", "Restarting mysqld with its new size", enlarging(l, spec))
			p.remove(t, l, spec)
			if test.resource != "secrets" {
				p.ready(t, l, spec)
				p.remove(t, l, spec)
			}
		})
	}
}

// A pod that somebody has relabelled is replaced by the next operation, or ended by a suspension. If the cluster relabels
// that one too, the error names the label.
func TestPodRelabelled(t *testing.T) {
	t.Parallel()
	for _, label := range []string{managerLabel, serverLabel} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			p, l, spec := newServer(t)
			relabel := func() (before string) {
				p.runs(t, spec, map[string]any{"name": "mysqld"})
				p.labelPod(t, spec, label, nil)
				return uid(t, p, spec)
			}
			before := relabel()
			awaitSentence(t, "a launch", "Starting the server", launching(l, spec))
			p.awaitNext(t, spec, before)
			awaitSentence(t, "a launch", "Attaching the volume", launching(l, spec))
			relabel()
			do(t, suspending(l, spec))
			assert.Empty(t, uid(t, p, spec))
			awaitSentence(t, "a launch", "Attaching the volume", launching(l, spec))
			relabel()
			p.relabel(t, "pods", label, "another")
			_, _, err := finish(t, enlarging(l, spec))
			says(t, err, launcher.GiveUp, "The servers of this plan cannot be run here just now.")
			assert.ErrorContains(t, err, "label "+label+" of pods ")
			p.remove(t, l, spec)
		})
	}
}

// initContainer is one in a state.
type initContainer struct{ name, state string }

// initContainers has the pod of a server look as if these init containers had run or were running.
func (p *place) initContainers(t *testing.T, spec launcher.Spec, containers ...initContainer) {
	now := ago(0)
	var all []any
	for _, c := range containers {
		is := map[string]any{"running": map[string]any{"startedAt": now},
			"terminated": map[string]any{"exitCode": 0, "containerID": "test://2", "finishedAt": now},
			"waiting":    map[string]any{"reason": "ErrImagePull"}}[c.state]
		all = append(all, map[string]any{"name": c.name, "image": "x", "imageID": "x", "ready": true, "restartCount": 0,
			"containerID": "test://2", "state": map[string]any{c.state: is}})
	}
	p.status(t, spec, map[string]any{"initContainerStatuses": all})
}

// Webhooks add init containers that run as long as the pod. Nothing waits for their end.
// https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
func TestInitContainerThatRuns(t *testing.T) {
	t.Parallel()
	t.Run("launch", func(t *testing.T) {
		t.Parallel()
		p, l, spec := newServer(t)
		p.runs(t, spec, map[string]any{"name": "mysqld"})
		p.initContainers(t, spec, initContainer{"proxy", "running"}, initContainer{"prepare", "terminated"})
		awaitSentence(t, "a launch", "Starting mysqld", launching(l, spec))
	})
	t.Run("upgrade", func(t *testing.T) {
		t.Parallel()
		p := newObjects(t)
		p.cfg.LaunchTimeout = 1
		l := p.open(t)
		spec := p.readyServer(t, l)
		awaitSentence(t, "an upgrade", "Preparing the volumes", toLater(l, spec))
		p.initContainers(t, spec, initContainer{"proxy", "running"}, initContainer{"copy", "waiting"})
		_, _, err := finish(t, toLater(l, spec))
		require.ErrorContains(t, err, "copy: ErrImagePull")
	})
}

// A webhook that cannot be tried may well allow what it is asked: a suspension is carried out, a plan counts as possible,
// and the error of a removal that cannot end does not name the webhook.
func TestWebhookThatCannotBeTried(t *testing.T) {
	t.Parallel()
	p, _, spec := newServer(t)
	claim := p.kindsOf(spec)["claim"]
	p.hold(t, claim, "test.example.com/stays")
	l := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		body, err := io.ReadAll(r.Body)
		if err == nil && (r.URL.Query().Has("dryRun") || bytes.Contains(body, []byte("dryRun"))) {
			refuse(w, http.StatusBadRequest, "BadRequest", "admission webhook does not support dry run")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass(w, r)
	}).open(t)
	require.NoError(t, l.(launcher.Checker).Try(t.Context(), spec))
	do(t, suspending(l, spec))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := l.Destroy(ctx, spec.ID)
	require.ErrorContains(t, err, "(held by test.example.com/stays)")
	assert.NotContains(t, err.Error(), "dry run")
	p.hold(t, claim)
	p.remove(t, l, spec)
}
