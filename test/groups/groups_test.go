package groups

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// aCase breaks a group whose primary is known. It returns since when the group should be writable, and what makes
// everything whole again.
type aCase struct {
	name  string
	times int // with GROUPS=long
	do    func(g *group, t *testing.T, primary int) (since time.Time, heal func())
	out   func(primary int) int // the member that has to be excluded before all is made whole, or nil
}

var cases = []aCase{
	{"node lost", 10, nodeLost, thePrimary},
	{"node drained", 3, nodeDrained, nil},
	{"network cut, a secondary off", 10, cutOff(func(primary int) [][]int { return [][]int{{primary, (primary + 1) % size}, {(primary + 2) % size}} }),
		func(primary int) int { return (primary + 2) % size }},
	{"network cut, the primary off", 10, cutOff(func(primary int) [][]int { return [][]int{{primary}, {(primary + 1) % size, (primary + 2) % size}} }), thePrimary},
	{"network cut, all apart", 10, cutOff(func(int) [][]int { return [][]int{{0}, {1}, {2}} }), nil},
	{"all nodes restarted", 10, allRestarted, nil},
	{"primary frozen for 60 s", 3, primaryFrozen, nil},
	{"broker and primary killed", 10, brokerKilled, nil},
}

func thePrimary(primary int) int { return primary }

// An instance with three members, created by the API, has each on a node of its own, and an application writes to it.
// After each of the cases it is writable again, all members are online, and none lacks a row that was acknowledged.
func TestGroups(t *testing.T) {
	if os.Getenv(cluster.DirVar) == "" {
		t.Skip("it needs three real nodes: make kubernetes NODES=3")
	}
	onKubernetes.Start(t)
	if nodes, real := onKubernetes.Node.(cluster.RealNodes); !real || len(nodes.Nodes) != size {
		t.Skip("it needs three real nodes: make kubernetes NODES=3")
	}
	g := newGroup(t)
	g.whole(t)
	var on []string
	for n := range size {
		on = append(on, g.node(t, n).Name)
	}
	if slices.Sort(on); len(slices.Compact(slices.Clone(on))) != size {
		t.Fatalf("the members are on %q", on)
	}
	g.writable(t, time.Now())
	for _, c := range cases {
		if !t.Run(c.name, func(t *testing.T) { g.repeat(t, c) }) {
			return // what follows would fail too
		}
	}
}

// repeat prints what docs/ha.md reports.
func (g *group) repeat(t *testing.T, c aCase) {
	times := 1
	if os.Getenv("GROUP_CASES") == "long" {
		times = c.times
	}
	var took []time.Duration
	lost, acked := 0, 0
	for range times {
		primary := g.whole(t)
		since, heal := c.do(g, t, primary)
		heal = sync.OnceFunc(heal)
		t.Cleanup(heal)
		took = append(took, g.writable(t, since))
		if c.out != nil {
			g.out(t, c.out(primary))
		}
		heal()
		primary = g.whole(t)
		g.writable(t, time.Now())
		t.Logf("writable after %.1f s, whole after %.1f s", took[len(took)-1].Seconds(), time.Since(since).Seconds())
		if lost, acked = g.lost(t, primary); lost > 0 {
			break
		}
	}
	slices.Sort(took)
	fmt.Printf("%s (%d times): acknowledged rows lost: %d of %d; writable after %.1f s (median), %.1f s (worst)\n", c.name,
		len(took), lost, acked, took[len(took)/2].Seconds(), took[len(took)-1].Seconds())
	if lost > 0 {
		t.Errorf("%d of %d acknowledged rows are lost", lost, acked)
	}
}

// nodeLost disconnects the node of the primary and stops everything on it.
func nodeLost(g *group, t *testing.T, primary int) (time.Time, func()) {
	node := g.node(t, primary)
	do(t, node.Disconnect(t.Context()), node.Signal(unix.SIGSTOP))
	since := time.Now()
	return since, func() { do(t, node.Signal(unix.SIGCONT), node.Connect(context.Background())) }
}

// nodeDrained evicts the primary from its node, as kubectl drain does, and keeps it from coming back until the others
// have gone on.
func nodeDrained(g *group, t *testing.T, primary int) (time.Time, func()) {
	node := "/api/v1/nodes/" + g.node(t, primary).Name
	cordon := func(on bool) {
		g.call(http.MethodPatch, node, map[string]any{"spec": map[string]bool{"unschedulable": on}}, nil)
	}
	cordon(true)
	testdrive.Eventually(t, limits.Stuck, "the primary is evicted", func() bool {
		status, _, err := onKubernetes.Call(t.Context(), http.MethodPost, "/api/v1/namespaces/"+g.namespace+"/pods/"+
			g.pod(primary)+"/eviction", map[string]any{"apiVersion": "policy/v1", "kind": "Eviction",
			"metadata": map[string]string{"name": g.pod(primary), "namespace": g.namespace}})
		return err == nil && status < 300
	})
	return time.Now(), func() { cordon(false) }
}

// cutOff has the control plane, which routes between nodes, lose all packets between nodes of different sides. It stays
// reachable from all. Where no side has a majority, the group should be writable only after the network is whole.
func cutOff(sides func(primary int) [][]int) func(*group, *testing.T, int) (time.Time, func()) {
	return func(g *group, t *testing.T, primary int) (time.Time, func()) {
		all := sides(primary)
		for _, side := range all {
			for _, other := range all {
				for _, from := range side {
					for _, to := range other {
						if from != to && !slices.Contains(side, to) {
							filter(t, "-A", g.node(t, from), g.node(t, to))
						}
					}
				}
			}
		}
		heal := func() { run(t, "iptables", "-t", "mangle", "-F", "FORWARD") }
		since := time.Now()
		if len(all) < size {
			return since, heal
		}
		testdrive.Eventually(t, limits.Stuck, "no member is in a group", func() bool {
			for n := range size {
				if online, _ := g.seen(t, n); online > 0 {
					return false
				}
			}
			return true
		})
		heal()
		return time.Now(), func() {}
	}
}

func filter(t *testing.T, action string, from, to cluster.RealNode) {
	t.Helper()
	run(t, "iptables", "-t", "mangle", action, "FORWARD", "-i", from.Link(), "-o", to.Link(), "-j", "DROP")
}

// allRestarted kills everything on all nodes at once. Their programs start again, as at boot.
func allRestarted(g *group, t *testing.T, _ int) (time.Time, func()) {
	for _, node := range g.nodes.Nodes {
		do(t, node.Disconnect(t.Context()))
	}
	for _, node := range g.nodes.Nodes {
		do(t, node.Signal(unix.SIGKILL))
	}
	for _, node := range g.nodes.Nodes {
		do(t, node.Connect(t.Context()))
	}
	return time.Now(), func() {}
}

// primaryFrozen stops the primary's mysqld for a minute.
func primaryFrozen(g *group, t *testing.T, primary int) (time.Time, func()) {
	pid := g.nodes.Process(g.namespace, g.pod(primary))
	do(t, unix.Kill(pid, unix.SIGSTOP))
	since := time.Now()
	return since, func() {
		time.Sleep(time.Until(since.Add(time.Minute)))
		if err := unix.Kill(pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) { // a broker may have replaced it
			t.Error(err)
		}
	}
}

// brokerKilled kills the only broker and the primary. Another broker starts.
func brokerKilled(g *group, t *testing.T, primary int) (time.Time, func()) {
	g.p.Kill(t)
	if !g.nodes.Kill(g.namespace, g.pod(primary)) {
		t.Errorf("the primary does not run")
	}
	since := time.Now()
	g.p = g.start()
	return since, func() {}
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func run(t *testing.T, command ...string) {
	t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, out)
	}
}
