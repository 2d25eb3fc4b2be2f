package kubernetes_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/servers"
)

// A group is resized and upgraded while applications write. If a member does not start with the new version, all have
// the former one again. Brokers that are paused before any request of that change nothing when they continue.
func TestGroupUpgrade(t *testing.T) { onNodes(t, testGroupUpgrade) }

func testGroupUpgrade(t *testing.T, image kubernetes.Image, node *cluster.Node) {
	g := newGroup(t, image, node)
	i := slices.IndexFunc(cluster.Binaries(), func(b mysqld.Binary) bool { return cluster.ImageName(b) == image.Name })
	present := cluster.Binaries()[i]
	later := servers.Renumbered(t, present)
	open := func(prefix string, b mysqld.Binary) (*place, launcher.Upgrader) {
		t.Helper()
		name, err := shared.Node.AddImage(t.Context(), prefix, image.Name, b)
		if err != nil {
			t.Fatal(err)
		}
		p := *g.p
		p.cfg.Images = []kubernetes.Image{image, {Flavour: later.Flavour, Version: later.Version, Name: name}}
		p.cfg.Supervise = false // g.l does
		return &p, p.open(t).(launcher.Upgrader)
	}
	upgrading := func(l launcher.Launcher, spec launcher.Spec) func(ctx context.Context) (launcher.Endpoint, error) {
		return func(ctx context.Context) (launcher.Endpoint, error) {
			return l.(launcher.Upgrader).Upgrade(ctx, spec, ignore, ignore)
		}
	}
	reverting := func(l launcher.Launcher, spec launcher.Spec) func(ctx context.Context) (launcher.Endpoint, error) {
		return func(ctx context.Context) (launcher.Endpoint, error) {
			return l.(launcher.Upgrader).Revert(ctx, spec, ignore, ignore)
		}
	}
	spec := g.spec
	spec.Version = later.Version
	g.write()

	broken, l := open("broken", altered(t, present, later, filepath.Base(present.Path),
		"echo it is broken >&2\nexit 1\n"))
	paused := broken.pauseEach(t, spec, upgrading, func(request string) bool {
		return strings.HasPrefix(request, http.MethodDelete)
	})
	_, sentences, err := finish(t, upgrading(l, spec))
	if failed, ok := errors.AsType[*launcher.Error](err); !ok || failed.Action != launcher.GiveUp ||
		!strings.Contains(failed.Sentence, "They continue with") || !strings.Contains(err.Error(), "it is broken") {
		t.Fatalf("upgrade to a version that does not start: %v after %q", err, slices.Compact(sentences))
	}
	g.takePause()
	g.during("a failed upgrade is reverted", func(int) {
		paused = slices.Concat(paused, broken.pauseEach(t, spec, reverting, never))
		g.whole("reverted")
		broken.continueEach(t, spec, paused)
	})
	g.versions(image.Version)

	good, l := open("later", later)
	paused = good.pauseEach(t, spec, upgrading, func(request string) bool {
		return strings.HasPrefix(request, http.MethodDelete)
	})
	g.during("an upgrade is reverted before a member has the version", func(int) {
		do(t, reverting(l, spec))
		g.whole("reverted")
		good.continueEach(t, spec, paused)
	})
	g.versions(image.Version)

	g.during("an upgrade whose brokers are paused", func(int) {
		paused = good.pauseEach(t, spec, upgrading, never)
		g.whole("upgraded")
		good.continueEach(t, spec, paused)
	}, 0, 1, 2)
	g.versions(later.Version)
	g.during("revert and upgrade of what is upgraded", func(int) {
		do(t, reverting(l, spec))
		do(t, upgrading(l, spec))
	})
	g.versions(later.Version)
	g.during("resize", func(int) {
		spec.MemoryMB, spec.StorageMB = 640, 2048
		do(t, func(ctx context.Context) (launcher.Endpoint, error) {
			return l.(launcher.Launcher).Resize(ctx, spec, ignore)
		})
	}, 0, 1, 2)
	g.resized("640Mi")
	g.stop()
	spec.Version = image.Version
	if _, _, err := finish(t, upgrading(l, spec)); !givesUp(err) {
		t.Errorf("back to the former version: %v", err)
	}
	g.destroy()
}

func ignore(string) {}

// versions expects that version of every member.
func (g *groupClient) versions(version string) {
	g.t.Helper()
	for _, address := range g.e.Members {
		g.admin(address, func(ctx context.Context, db *sql.DB) error {
			var has string
			err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&has)
			if err == nil && !strings.HasPrefix(has, version) {
				g.t.Errorf("the member at %s has version %s, want %s", address, has, version)
			}
			return err
		})
	}
}
