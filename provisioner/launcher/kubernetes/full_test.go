package kubernetes_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

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
		guest := visit(t, spec, e)
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
			testdrive.Eventually(t, limits.Stuck, "the launcher to see that the volume is full", func() bool {
				troubles, err := l.(launcher.Observer).Troubles(t.Context())
				return err == nil && troubles[spec.ID] == launcher.VolumeFull
			})
		} else if !shared.Node.Kill(p.Name, podName(spec)) {
			t.Error("there is no container to kill")
		}
		spec.StorageMB = 1024
		e, _, err := finish(t, resizing(l, spec))
		require.NoError(t, err, "resize")
		guest = visit(t, spec, e)
		var left int
		err = guest.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM d.t").Scan(&left)
		assert.True(t, err == nil && left == rows, "%d rows are left of %d, %v", left, rows, err)
		_, err = guest.ExecContext(t.Context(), "INSERT INTO d.t VALUES (-1, REPEAT('x', 1048576))")
		assert.NoError(t, err, "on the larger volume")
	})
}
