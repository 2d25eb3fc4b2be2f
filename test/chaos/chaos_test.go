// Package chaos kills brokers, which are processes, where launchers work on processes, files and pods, and kills the
// primary of a cluster at every point of every workflow. It audits what is left. All else that a kill can cut short,
// test/stage plays.
package chaos

import (
	"math/rand/v2"
	"testing"

	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/platform"
	"mysql-broker/test/servers"
)

// onKubernetes is the cluster of the tests that need one.
var onKubernetes cluster.Shared

func TestMain(m *testing.M) { servers.Main(m, onKubernetes.Close) }

// sparseInKubernetes is how many points there are for each at which a broker is killed in Kubernetes, where operations
// take longer. test/e2e/kubernetes kills brokers at all of them, in fewer workflows.
const sparseInKubernetes = 2

func TestChaos(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		t.Run("processes", func(t *testing.T) {
			t.Parallel()
			newWorld(t, s.Flavour).killEverywhere(t, 1)
		})
		t.Run("Kubernetes", func(t *testing.T) {
			t.Parallel()
			onKubernetes.Start(t)
			newKubernetesWorld(t, s.Flavour).killEverywhere(t, sparseInKubernetes)
		})
	})
}

// killEverywhere kills brokers at every point of the launcher, or at one of so many, in every workflow that starts,
// changes or removes a dedicated server.
func (w *world) killEverywhere(t *testing.T, sparse int) {
	t.Helper()
	next := rand.IntN(sparse)
	for _, f := range platform.Workflows(t) {
		if !f.Launches() {
			continue
		}
		points := w.cutShort(t, f, "")
		t.Logf("%s passes %d points: %q", f, len(points), points)
		for _, p := range points {
			if next++; next%sparse == 0 {
				w.cutShort(t, f, p)
			}
		}
	}
}
