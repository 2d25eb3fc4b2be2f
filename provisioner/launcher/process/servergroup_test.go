package process_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
)

// A server is in its group from its start on, however it comes to be started, and the group goes with it.
func TestServersHaveControlGroups(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		tree, ok := makeGroupTree(t)
		if !ok {
			return
		}
		cfg := newConfig(t, binary)
		ungrouped := cfg
		cfg.SetControlGroups(tree.dir, tree.name, tree.memory)
		logged := warnings(&cfg)
		l := open(t, cfg)
		spec := newSpec("tenant")
		expect := func(what string) {
			t.Helper()
			if got := tree.groupOf(t, pidOf(t, cfg, spec.ID)); got != "/server-tenant" {
				t.Errorf("%s: the server is in the group %q", what, got)
			}
			if !tree.memory {
				return
			}
			limit, err := os.ReadFile(filepath.Join(tree.dir, "server-tenant", "memory.max"))
			if want := process.MemoryMax(binary.Flavour, spec.MemoryMB); err != nil || strings.TrimSpace(string(limit)) != want {
				t.Errorf("%s: memory.max is %s (%v), want %s", what, limit, err, want)
			}
		}
		killAndAwait := func(what string) {
			t.Helper()
			pid := pidOf(t, cfg, spec.ID)
			db := connect(t, spec, launch(t, l, spec))
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, what, func() bool { return !alive(pid) && db.PingContext(t.Context()) == nil })
		}
		launch(t, l, spec)
		expect("launched")
		killAndAwait("the server is started again")
		expect("killed")
		spec.MemoryMB = 512
		if _, err := l.Resize(t.Context(), spec, ignore); err != nil {
			t.Fatal(err)
		}
		expect("resized")

		pid := pidOf(t, cfg, spec.ID)
		l.Close()
		l = open(t, cfg)
		defer func() { l.Close() }()
		if err := l.StartAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if pidOf(t, cfg, spec.ID) != pid {
			t.Error("the next broker has not found the server")
		}
		expect("taken over")
		if strings.Contains(logged.String(), "control group") {
			t.Errorf("warned: %s", logged)
		}

		// A broker without groups, such as an older one, has started it.
		if err := l.StopAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		l = open(t, ungrouped)
		launch(t, l, spec)
		if got := tree.groupOf(t, pidOf(t, cfg, spec.ID)); !strings.HasPrefix(got, "outside") {
			t.Errorf("without groups, the server is in %q", got)
		}
		l.Close()
		l = open(t, cfg)
		eventually(t, "operators are told", func() bool {
			return strings.Contains(logged.String(), "no control group of its own")
		})
		killAndAwait("the server is started in its group")
		expect("started again")

		if err := l.Destroy(t.Context(), spec.ID); err != nil {
			t.Fatal(err)
		}
		if left := tree.groups(t); slices.Contains(left, "server-tenant") {
			t.Errorf("groups are left: %s", left)
		}
	})
}

// Servers that an older broker has started in the unit's group itself are moved out of the way, and go on.
func TestDelegatedGroupIsCleared(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		tree, ok := makeGroupTree(t)
		if !ok {
			return
		}
		cfg := newConfig(t, binary)
		older, end := tree.sleepIn(t, "")
		_, endStray := tree.sleepIn(t, "server-destroyed")
		cfg.SetControlGroups(tree.dir, tree.name, tree.memory)
		open(t, cfg).Close()
		text, err := os.ReadFile(filepath.Join(older, "cgroup"))
		if err != nil || !strings.Contains(string(text), tree.name+"/ungrouped\n") {
			t.Errorf("the process is in %s (%v)", text, err)
		}
		if left := tree.groups(t); !slices.Equal(left, []string{"server-destroyed", "ungrouped"}) {
			t.Errorf("groups: %s", left)
		}
		end()
		endStray()
		l := open(t, cfg)
		defer l.Close()
		if left := tree.groups(t); len(left) > 0 {
			t.Errorf("groups of no server are left: %s", left)
		}
	})
}
