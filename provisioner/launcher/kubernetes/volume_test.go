package kubernetes_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/kubernetes/cluster"
)

// volumeOf returns the requested and the actual size of a server's volume.
func volumeOf(t *testing.T, p *place, spec launcher.Spec) (requested, actual string) {
	t.Helper()
	var claim struct {
		Spec struct {
			Resources struct{ Requests map[string]string }
		}
		Status struct{ Capacity map[string]string }
	}
	p.Do(t, http.MethodGet, p.Path("persistentvolumeclaims/"+objectName(spec)), nil, &claim)
	return claim.Spec.Resources.Requests["storage"], claim.Status.Capacity["storage"]
}

// A volume grows with the plan, and a resize ends when it has grown. If the class of the volume cannot do that, or its
// driver fails, users read so, and the server stays as it was. Afterwards, it can get other sizes.
func TestVolumeGrows(t *testing.T) {
	oneImage(t, func(t *testing.T, image kubernetes.Image) {
		p := newPlace(t, image)
		p.cfg.LaunchTimeout = 20 * time.Second
		l := p.open(t)
		in := func(class string) (launcher.Spec, func(memoryMB, storageMB int) ([]string, error)) {
			spec := newSpec()
			spec.Placement = &plan.Placement{StorageClass: class}
			launch(t, l, spec)
			return spec, func(memoryMB, storageMB int) ([]string, error) {
				to := spec
				to.MemoryMB, to.StorageMB = memoryMB, storageMB
				_, sentences, err := finish(t, func(ctx context.Context) (launcher.Endpoint, error) {
					return l.Resize(ctx, to, func(string) {})
				})
				return sentences, err
			}
		}
		gaveUp := func(err error, sentence string) bool {
			e, ok := errors.AsType[*launcher.Error](err)
			return ok && e.Action == launcher.GiveUp && e.Sentence == sentence
		}
		const cannot = "The disk of this server cannot grow."

		t.Run("fixed", func(t *testing.T) {
			t.Parallel()
			spec, resize := in(cluster.FixedClass)
			_, err := resize(512, 2048)
			assert.True(t, gaveUp(err, cannot), "a volume that cannot grow: %v", err)
			_, err = resize(256, 1024)
			assert.NoError(t, err, "back to the former size")
			_, err = resize(512, 512)
			assert.NoError(t, err, "more memory and less disk")
			requested, actual := volumeOf(t, p, spec)
			assert.True(t, requested == "1Gi" && actual == "1Gi", "its volume is to have %s and has %s", requested, actual)
		})
		t.Run("refused afterwards", func(t *testing.T) {
			t.Parallel()
			spec, resize := in(cluster.StorageClass)
			if _, err := resize(64<<20, 4096); !errors.Is(err, launcher.ErrNoRoom) { // 64 TiB of memory
				t.Errorf("a size that no node has: %v", err)
			}
			_, err := resize(512, 2048)
			assert.NoError(t, err, "to a size between the two")
			requested, actual := volumeOf(t, p, spec)
			assert.True(t, requested == "4Gi" && actual == "4Gi", "its volume is to have %s and has %s", requested, actual)
		})
		t.Run("pending", func(t *testing.T) {
			t.Parallel()
			spec, resize := in(cluster.PendingClass)
			end, err := l.Endpoint(t.Context(), spec.ID)
			require.NoError(t, err)
			guest := visit(t, spec, end)
			status := func(status map[string]any) {
				t.Helper()
				p.Do(t, http.MethodPatch, p.Path("persistentvolumeclaims/"+objectName(spec)+"/status"),
					map[string]any{"status": status}, nil)
			}
			larger := spec
			larger.StorageMB = 3072
			_, err = l.Resize(t.Context(), larger, func(string) {})
			e, ok := errors.AsType[*launcher.Error](err)
			require.True(t, ok && e.Action == launcher.Wait && e.Sentence == "Enlarging the server's disk",
				"while the volume has not grown: %v", err)
			status(map[string]any{"allocatedResourceStatuses": map[string]string{"storage": "ControllerResizeInfeasible"}})
			_, err = l.Resize(t.Context(), larger, func(string) {})
			assert.True(t, gaveUp(err, cannot), "a volume that its driver cannot enlarge: %v", err)
			status(map[string]any{"allocatedResourceStatuses": nil, "capacity": map[string]string{"storage": "3Gi"}})
			_, err = resize(256, 3072)
			assert.NoError(t, err, "after the volume has grown")
			assert.NoError(t, guest.PingContext(t.Context()), "a session has ended")
			before := uid(t, p, spec)
			status(map[string]any{"conditions": []any{map[string]string{"type": "FileSystemResizePending", "status": "True",
				"lastTransitionTime": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}}})
			sentences, err := resize(256, 4096)
			if err != nil || !slices.Contains(sentences, "Restarting mysqld with its new size") || uid(t, p, spec) == before {
				t.Errorf("a volume that grows when it is mounted again: %v, %q", err, slices.Compact(sentences))
			}
			status(map[string]any{"conditions": nil})
			_, err = resize(256, 5120)
			assert.True(t, gaveUp(err, "The disk of this server did not grow in time."), "a volume that does not grow: %v", err)
		})
	})
}

// No call lists objects: with thousands of servers in the namespace, each would take longer.
func TestCallsListNothing(t *testing.T) {
	oneImage(t, func(t *testing.T, image kubernetes.Image) {
		var requests requestLog
		p := newPlace(t, image)
		l, spec := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
			requests.add(r)
			pass(w, r)
		}).open(t), newSpec()
		launch(t, l, spec)
		assert.NoError(t, l.Keep(t.Context(), spec.ID))
		spec.MemoryMB, spec.StorageMB = 512, 2048
		_, _, err := finish(t, func(ctx context.Context) (launcher.Endpoint, error) {
			return l.Resize(ctx, spec, func(string) {})
		})
		assert.NoError(t, err)
		_, _, err = finish(t, func(ctx context.Context) (launcher.Endpoint, error) {
			return launcher.Endpoint{}, l.Suspend(ctx, spec.ID)
		})
		assert.NoError(t, err)
		launch(t, l, spec)
		assert.NoError(t, destroy(t, l, spec.ID))
		name := objectName(spec)
		for _, request := range requests.all() {
			assert.False(t, strings.HasPrefix(request, http.MethodGet) && !strings.Contains(request, name),
				"a list: %s", request)
		}
	})
}
