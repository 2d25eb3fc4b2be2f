package kubernetes_test

import (
	"context"
	"testing"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/kubernetes/cluster"
)

// While applications write to a group of MariaDB, a session locks a table, and the members are replaced: with another
// pod, another volume, and another size. TestGroupUpgrade resizes groups of MySQL.
func TestGaleraGroup(t *testing.T) { eachGroup(t, testGaleraGroup) }

func testGaleraGroup(t *testing.T, image kubernetes.Image, node *cluster.Node) {
	if image.Flavour != mysqld.MariaDB {
		t.Skip("it is for Galera")
	}
	g := newGroup(t, image, node)
	g.write()
	g.during("a lock keeps a member from applying", func(primary int) { g.lockTable((primary + 1) % 3) })
	g.during("the primary's pod is deleted", func(primary int) { g.deletePod(primary) }, 0)
	g.during("the volume of a secondary is lost", func(primary int) { g.loseVolume((primary + 1) % 3) }, 1)
	g.during("resize", func(int) {
		g.spec.MemoryMB, g.spec.StorageMB = 640, 2048
		do(t, func(ctx context.Context) (launcher.Endpoint, error) { return g.l.Resize(ctx, g.spec, ignore) })
	}, 0, 1, 2)
	g.resized("640Mi")
	g.stop()
	g.destroy()
}

// lockTable locks a table on a member, and returns once the session with the lock was ended.
func (g *groupClient) lockTable(member int) {
	g.t.Helper()
	db := g.open(g.e.Members[member], "app", appPassword)
	defer db.Close()
	conn, err := db.Conn(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(g.t.Context(), "LOCK TABLES app.t READ"); err != nil {
		g.t.Fatal(err)
	}
	await(g.t, "the session with the lock has ended", func() bool {
		_, err := conn.ExecContext(g.t.Context(), "DO 1")
		return err != nil
	})
}
