package kubernetes_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		e := launch(t, l, spec)
		read := func(path string) string {
			var object json.RawMessage
			p.Do(t, http.MethodGet, path, nil, &object)
			return string(object)
		}
		pod := p.Path("pods/" + podName(spec))
		for _, part := range []string{`"key":"example.com/mysql"`, `"value":"own"`, `"topologyKey":"kubernetes.io/hostname"`,
			`"team":"data"`, `"example.com/note":"a plan's"`, `"limits":{"cpu":"500m","memory":"256Mi"}`,
			`"requests":{"cpu":"500m","memory":"256Mi"}`} {
			assert.Contains(t, read(pod), part)
		}
		claim := p.Path("persistentvolumeclaims/" + objectName(spec))
		for _, part := range []string{`"storageClassName":"local"`, `"storage":"1Gi"`, `"team":"data"`} {
			assert.Contains(t, read(claim), part)
		}

		other := newSpec()
		awaitSentence(t, "a launch beside a server with a node of its own", "Waiting for a node of its own",
			launching(l, other))
		_, _, err := finish(t, launching(p.hasty().open(t), other))
		assert.ErrorIs(t, err, launcher.ErrNoRoom, "a server beside one with a node of its own")
		require.NoError(t, destroy(t, l, other.ID))

		before := uid(t, p, spec)
		spec.Placement = &plan.Placement{StorageClass: "another", Labels: map[string]string{"team": "web"}}
		_, sentences, err := finish(t, resizing(l, spec))
		require.NoError(t, err, "to a plan for other nodes")
		assert.Contains(t, strings.Join(sentences, "\n"), "Restarting mysqld")
		assert.NotEqual(t, before, uid(t, p, spec))
		object := read(pod)
		assert.NotContains(t, object, "topologyKey")
		assert.NotContains(t, object, "example.com/mysql")
		assert.Contains(t, object, `"team":"web"`)
		visit(t, spec, e)
		guest := visit(t, spec, e)
		spec.Placement = &plan.Placement{Labels: map[string]string{"team": "ops"}}
		do(t, resizing(l, spec))
		assert.NoError(t, guest.PingContext(t.Context()), "a label alone has ended a session")

		do(t, suspending(l, spec))
		spec.Placement = &plan.Placement{OwnNode: true, Labels: map[string]string{"team": "back"}}
		launch(t, l, spec)
		object = read(pod) // of a suspended server that has come back with another plan
		assert.Contains(t, object, "topologyKey")
		assert.Contains(t, object, `"team":"back"`)
	})
}
