// Package chaos kills and pauses brokers, which are processes, at points that their work passes, and audits what is left:
// at every eighth, by chance other ones in each run and on each flavour, as test/stage takes all of them. The long form,
// with the environment variable CHAOS=long, takes every point of the process launcher, too, and waits until leases run
// out.
package chaos

import (
	"math/rand/v2"
	"os"
	"testing"

	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/servers"
)

// onKubernetes is the cluster of the tests that need one.
var onKubernetes cluster.Shared

func TestMain(m *testing.M) { servers.Main(m, onKubernetes.Close) }

func long() bool { return os.Getenv("CHAOS") == "long" }

// chaos is what a test is given.
type chaos struct {
	flavour string
	share   int // which points are taken: one of eight, and of copies one of sixteen
	*tally
}

func TestChaos(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*testing.T, chaos){
		"killed":                        testKills,
		"copies killed":                 testCopyKills,
		"killed, servers in Kubernetes": testKubernetesKills,
		"a statement in flight":         testStatementInFlight,
	}
	chance := 2 * rand.IntN(8)
	var tallies []*tally
	t.Cleanup(func() { t.Logf("what the brokers went through:\n%s", table(tallies)) })
	for n, s := range servers.Chosen(t, servers.AllMySQL(t)) {
		sum := &tally{flavour: s.Flavour}
		tallies = append(tallies, sum)
		t.Run(s.Flavour, func(t *testing.T) {
			t.Parallel()
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, chaos{s.Flavour, n%2 + chance, sum})
				})
			}
		})
	}
}
