package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/plan"
)

// The objects contain what the plan says about nodes, volume, labels and sizes. A server with a node of its own keeps
// all others away. With another plan the server moves, and keeps its volume.
func TestPlacement(t *testing.T) {
	oneImage(t, func(t *testing.T, image kubernetes.Image) {
		p := newPlace(t, image)
		l, spec := p.open(t), newSpec()
		spec.MilliCPU = 500
		spec.Placement = &plan.Placement{OwnNode: true, StorageClass: "local",
			Tolerations: []plan.Toleration{{Key: "example.com/mysql", Operator: "Equal", Value: "own", Effect: "NoSchedule"}},
			Labels:      map[string]string{"team": "data"}, Annotations: map[string]string{"example.com/note": "a plan's"}}
		e, _ := launch(t, l, spec)
		read := func(path string) string {
			var object json.RawMessage
			p.Do(t, http.MethodGet, path, nil, &object)
			return string(object)
		}
		pod := p.Path("pods/" + podName(spec))
		for _, part := range []string{`"key":"example.com/mysql"`, `"value":"own"`, `"topologyKey":"kubernetes.io/hostname"`,
			`"team":"data"`, `"example.com/note":"a plan's"`, `"limits":{"cpu":"500m","memory":"256Mi"}`,
			`"requests":{"cpu":"500m","memory":"256Mi"}`} {
			if !strings.Contains(read(pod), part) {
				t.Errorf("the pod has no %s", part)
			}
		}
		claim := p.Path("persistentvolumeclaims/" + objectName(spec))
		for _, part := range []string{`"storageClassName":"local"`, `"storage":"1Gi"`, `"team":"data"`} {
			if !strings.Contains(read(claim), part) {
				t.Errorf("the claim has no %s", part)
			}
		}

		other := newSpec()
		awaitSentence(t, "a launch beside a server with a node of its own", "Waiting for a node of its own",
			launching(l, other))
		if _, _, err := finish(t, launching(p.hasty().open(t), other)); !errors.Is(err, launcher.ErrNoRoom) {
			t.Errorf("a server beside one with a node of its own: %v, want ErrNoRoom", err)
		}
		if err := destroy(t, l, other.ID); err != nil {
			t.Fatal(err)
		}

		before := uid(t, p, spec)
		spec.Placement = &plan.Placement{StorageClass: "another", Labels: map[string]string{"team": "web"}}
		_, sentences, err := finish(t, func(ctx context.Context) (launcher.Endpoint, error) {
			return l.Resize(ctx, spec, func(string) {})
		})
		if err != nil || !strings.Contains(strings.Join(sentences, "\n"), "Restarting mysqld") || uid(t, p, spec) == before {
			t.Errorf("to a plan for other nodes: %v, %q", err, slices.Compact(sentences))
		}
		if object := read(pod); strings.Contains(object, "topologyKey") || strings.Contains(object, "example.com/mysql") ||
			!strings.Contains(object, `"team":"web"`) {
			t.Errorf("after that, the pod is %s", object)
		}
		if err := connect(t, spec, e).Ping(t.Context()); err != nil {
			t.Error(err)
		}
		guest := visit(t, spec, e)
		spec.Placement = &plan.Placement{Labels: map[string]string{"team": "ops"}}
		if _, _, err := finish(t, func(ctx context.Context) (launcher.Endpoint, error) {
			return l.Resize(ctx, spec, func(string) {})
		}); err != nil {
			t.Errorf("to a plan with another label: %v", err)
		}
		if err := guest.PingContext(t.Context()); err != nil {
			t.Errorf("a label alone has ended a session: %v", err)
		}

		if _, _, err := finish(t, func(ctx context.Context) (launcher.Endpoint, error) {
			return launcher.Endpoint{}, l.Suspend(ctx, spec.ID)
		}); err != nil {
			t.Error(err)
		}
		spec.Placement = &plan.Placement{OwnNode: true, Labels: map[string]string{"team": "back"}}
		launch(t, l, spec)
		if object := read(pod); !strings.Contains(object, "topologyKey") || !strings.Contains(object, `"team":"back"`) {
			t.Errorf("a suspended server that has come back with another plan: %s", object)
		}
	})
}
