package process_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
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
			assert.Equal(t, "/server-tenant", tree.groupOf(t, pidOf(t, cfg, spec.ID)), "%s: the server is in the group", what)
			if !tree.memory {
				return
			}
			limit, err := os.ReadFile(filepath.Join(tree.dir, "server-tenant", "memory.max"))
			want := process.MemoryMax(binary.Flavour, spec.MemoryMB)
			assert.True(t, err == nil && strings.TrimSpace(string(limit)) == want,
				"%s: memory.max is %s (%v), want %s", what, limit, err, want)
		}
		killAndAwait := func(what string) {
			t.Helper()
			pid := pidOf(t, cfg, spec.ID)
			db := connect(t, spec, launch(t, l, spec))
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			testdrive.Eventually(t, limits.Stuck, what, func() bool { return !alive(pid) && db.PingContext(t.Context()) == nil })
		}
		launch(t, l, spec)
		expect("launched")
		killAndAwait("the server is started again")
		expect("killed")
		spec.MemoryMB = 512
		_, err := l.Resize(t.Context(), spec, ignore)
		require.NoError(t, err)
		expect("resized")

		pid := pidOf(t, cfg, spec.ID)
		l.Close()
		l = open(t, cfg)
		require.NoError(t, l.StartAll(t.Context()))
		assert.Equal(t, pid, pidOf(t, cfg, spec.ID), "the next broker has not found the server")
		expect("taken over")
		assert.False(t, strings.Contains(logged.String(), "control group"), "warned: %s", logged)

		// A broker without groups, such as an older one, has started it.
		require.NoError(t, l.StopAll(t.Context()))
		l = open(t, ungrouped)
		launch(t, l, spec)
		got := tree.groupOf(t, pidOf(t, cfg, spec.ID))
		assert.True(t, strings.HasPrefix(got, "outside"), "without groups, the server is in %q", got)
		l.Close()
		l = open(t, cfg)
		testdrive.Eventually(t, limits.Stuck, "operators are told", func() bool {
			return strings.Contains(logged.String(), "no control group of its own")
		})
		killAndAwait("the server is started in its group")
		expect("started again")

		require.NoError(t, l.Destroy(t.Context(), spec.ID))
		left := tree.groups(t)
		assert.False(t, slices.Contains(left, "server-tenant"), "groups are left: %s", left)
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
		assert.True(t, err == nil && strings.Contains(string(text), tree.name+"/ungrouped\n"),
			"the process is in %s (%v)", text, err)
		assert.Equal(t, []string{"server-destroyed", "ungrouped"}, tree.groups(t), "groups")
		end()
		endStray()
		open(t, cfg)
		assert.Empty(t, tree.groups(t), "groups of no server")
	})
}
