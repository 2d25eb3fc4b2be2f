// Package chaos kills, pauses and fails brokers at every point that their work passes, and audits what is left. The
// long form, with the environment variable CHAOS=long, takes every point on every flavour; the short one takes every
// second point on one flavour and the others on the other.
package chaos

import (
	"os"
	"testing"

	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func long() bool { return os.Getenv("CHAOS") == "long" }

// chaos is what a test is given.
type chaos struct {
	flavour string
	half    int // which points the short form takes: odd ones or even ones
	*tally
}

func TestChaos(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*testing.T, chaos){
		"killed at every point":          testKills,
		"a statement in flight":          testStatementInFlight,
		"a broker that dies at each try": testCrashLoops,
		"a step that fails at each try":  testCleanup,
	}
	var tallies []*tally
	t.Cleanup(func() { t.Logf("what the brokers went through:\n%s", table(tallies)) })
	for n, s := range servers.AllMySQL(t) {
		sum := &tally{flavour: s.Flavour}
		tallies = append(tallies, sum)
		t.Run(s.Flavour, func(t *testing.T) {
			t.Parallel()
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, chaos{s.Flavour, n % 2, sum})
				})
			}
		})
	}
}
