package kubernetes_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/launchertest"
	"mysql-broker/test/testdrive"
)

// The objects contain what the plan says about nodes, volume, labels and sizes. A server with a node of its own keeps
// all others away. With another plan the server moves, and keeps its volume. Users read why a server waits for a node.
func TestPlacement(t *testing.T) {
	oneImage(t, func(t *testing.T, image kubernetes.Image) {
		p := newPlace(t, image)
		l, spec, large := p.open(t), newSpec(), newSpec()
		large.MemoryMB = 40 << 10 // the node has 32
		awaitSentence(t, "a launch", "Waiting for a node with enough memory", launching(l, large))
		spec.MilliCPU = 500
		spec.Placement = &plan.Placement{OwnNode: true, StorageClass: "local",
			Tolerations: []plan.Toleration{{Key: "example.com/mysql", Operator: "Equal", Value: "own", Effect: "NoSchedule"}},
			Labels:      map[string]string{"team": "data"}, Annotations: map[string]string{"example.com/note": "a plan's"}}
		e := launch(t, l, spec)
		pod := p.Path("pods/" + podName(spec))
		for _, part := range []string{`"key":"example.com/mysql"`, `"value":"own"`, `"topologyKey":"kubernetes.io/hostname"`,
			`"team":"data"`, `"example.com/note":"a plan's"`, `"limits":{"cpu":"500m","memory":"256Mi"}`,
			`"requests":{"cpu":"500m","memory":"256Mi"}`} {
			assert.Contains(t, p.text(t, pod), part)
		}
		for _, part := range []string{`"storageClassName":"local"`, `"storage":"1Gi"`, `"team":"data"`} {
			assert.Contains(t, p.text(t, p.kindsOf(spec)["claim"]), part)
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
		object := p.text(t, pod)
		assert.NotContains(t, object, "topologyKey")
		assert.NotContains(t, object, "example.com/mysql")
		assert.Contains(t, object, `"team":"web"`)
		launchertest.Visit(t, spec, e)
		guest := launchertest.Visit(t, spec, e)
		spec.Placement = &plan.Placement{Labels: map[string]string{"team": "ops"}}
		do(t, resizing(l, spec))
		assert.NoError(t, guest.PingContext(t.Context()), "a label alone has ended a session")

		do(t, suspending(l, spec))
		spec.Placement = &plan.Placement{OwnNode: true, Labels: map[string]string{"team": "back"}}
		launch(t, l, spec)
		object = p.text(t, pod) // of a suspended server that has come back with another plan
		assert.Contains(t, object, "topologyKey")
		assert.Contains(t, object, `"team":"back"`)
	})
}

// expectVolume expects the requested and the actual size of a server's volume.
func (p *place) expectVolume(t *testing.T, spec launcher.Spec, size string) {
	claim := p.get(t, p.kindsOf(spec)["claim"])
	assert.Equal(t, size, claim.Spec.Resources.Requests["storage"])
	assert.Equal(t, size, claim.Status.Capacity["storage"])
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
				_, sentences, err := finish(t, resizing(l, to))
				return sentences, err
			}
		}
		const cannot = "The disk of this server cannot grow."

		t.Run("fixed", func(t *testing.T) {
			t.Parallel()
			spec, resize := in(cluster.FixedClass)
			_, err := resize(512, 2048)
			says(t, err, launcher.GiveUp, cannot)
			_, err = resize(256, 1024)
			assert.NoError(t, err, "back to the former size")
			_, err = resize(512, 512)
			assert.NoError(t, err, "more memory and less disk")
			p.expectVolume(t, spec, "1Gi")
		})
		t.Run("refused afterwards", func(t *testing.T) {
			t.Parallel()
			spec, resize := in(cluster.StorageClass)
			_, err := resize(64<<20, 4096) // 64 TiB of memory
			assert.ErrorIs(t, err, launcher.ErrNoRoom)
			_, err = resize(512, 2048)
			assert.NoError(t, err, "to a size between the two")
			p.expectVolume(t, spec, "4Gi")
		})
		t.Run("pending", func(t *testing.T) {
			t.Parallel()
			spec, resize := in(cluster.PendingClass)
			e, err := l.Endpoint(t.Context(), spec.ID)
			require.NoError(t, err)
			guest := launchertest.Visit(t, spec, e)
			status := func(status map[string]any) {
				p.merge(t, p.Path("persistentvolumeclaims/"+objectName(spec)+"/status"), map[string]any{"status": status})
			}
			larger := spec
			larger.StorageMB = 3072
			answers(t, resizing(l, larger), launcher.Wait, "Enlarging the server's disk")
			status(map[string]any{"allocatedResourceStatuses": map[string]string{"storage": "ControllerResizeInfeasible"}})
			answers(t, resizing(l, larger), launcher.GiveUp, cannot) // its driver cannot enlarge it
			status(map[string]any{"allocatedResourceStatuses": nil, "capacity": map[string]string{"storage": "3Gi"}})
			_, err = resize(256, 3072)
			assert.NoError(t, err, "after the volume has grown")
			assert.NoError(t, guest.PingContext(t.Context()), "a session has ended")
			before := uid(t, p, spec)
			status(map[string]any{"conditions": []any{map[string]string{"type": "FileSystemResizePending", "status": "True",
				"lastTransitionTime": ago(time.Hour)}}})
			sentences, err := resize(256, 4096)
			require.NoError(t, err, "a volume that grows when it is mounted again")
			assert.Contains(t, sentences, "Restarting mysqld with its new size")
			assert.NotEqual(t, before, uid(t, p, spec))
			status(map[string]any{"conditions": nil})
			_, err = resize(256, 5120)
			says(t, err, launcher.GiveUp, "The disk of this server did not grow in time.")
		})
	})
}

// No call lists objects: with thousands of servers in the namespace, each would take longer.
func TestCallsListNothing(t *testing.T) {
	oneImage(t, func(t *testing.T, image kubernetes.Image) {
		p, spec := newPlace(t, image), newSpec()
		l := p.behind(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
			if r.Method == http.MethodGet {
				assert.Contains(t, r.URL.Path, objectName(spec))
			}
			pass(w, r)
		}).open(t)
		launch(t, l, spec)
		assert.NoError(t, l.Keep(t.Context(), spec.ID))
		larger := spec
		larger.MemoryMB, larger.StorageMB = 512, 2048
		do(t, resizing(l, larger))
		do(t, suspending(l, larger))
		launch(t, l, larger)
		assert.NoError(t, destroy(t, l, spec.ID))
	})
}

// If a server's volume is full to the last byte, all data is there once the volume has grown. MariaDB ends, and the
// launcher sees why, whether it found the volume full as it wrote pages, the log or a rollback. MySQL refuses to write;
// after a kill, it waits for room before it responds again.
func TestVolumeFull(t *testing.T) {
	eachImage(t, func(t *testing.T, image kubernetes.Image) {
		p := newPlace(t, image)
		l, spec := p.open(t), newSpec()
		// The volume is in memory, which the node counts as the container's: the limit has to be enough for both.
		spec.MemoryMB, spec.StorageMB = 1024, 256
		spec.Placement = &plan.Placement{StorageClass: cluster.LimitedClass}
		e := launch(t, l, spec)
		guest := launchertest.Visit(t, spec, e)
		for _, statement := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (n INT PRIMARY KEY, b LONGBLOB)"} {
			_, err := guest.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		rows := 0
		for rows < 2*spec.StorageMB {
			if _, err := guest.ExecContext(t.Context(), "INSERT INTO d.t VALUES (?, REPEAT('x', 1048576))", rows); err != nil {
				t.Logf("after %d MiB: %v", rows, err)
				break
			}
			rows++
		}
		require.False(t, rows == 0 || rows >= spec.StorageMB, "%d MiB fit on a volume of %d MiB", rows, spec.StorageMB)
		if image.Flavour == mysqld.MariaDB {
			testdrive.Eventually(t, "the launcher to see that the volume is full", func() bool {
				troubles, err := l.(launcher.Observer).Troubles(t.Context())
				return err == nil && troubles[spec.ID] == launcher.VolumeFull
			})
		} else if !shared.Node.Kill(p.Name, podName(spec)) {
			t.Error("there is no container to kill")
		}
		spec.StorageMB = 1024
		e, _, err := finish(t, resizing(l, spec))
		require.NoError(t, err, "resize")
		guest = launchertest.Visit(t, spec, e)
		var left int
		err = guest.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM d.t").Scan(&left)
		assert.True(t, err == nil && left == rows, "%d rows are left of %d, %v", left, rows, err)
		_, err = guest.ExecContext(t.Context(), "INSERT INTO d.t VALUES (-1, REPEAT('x', 1048576))")
		assert.NoError(t, err, "on the larger volume")
	})
}
