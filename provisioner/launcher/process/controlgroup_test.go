package process_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/test/testdrive"
)

// groupTree is a group in the real tree of control groups, and what the kernel can do there.
type groupTree struct {
	dir, name string
	memory    bool // it limits memory
}

// makeGroupTree makes a group that is gone, with all below it, when the test ends. ok is false where this user may make
// none: there, nothing can be delegated either.
func makeGroupTree(t *testing.T) (tree groupTree, ok bool) {
	root := cgroup2Mount(t)
	name := "/mysql-broker-test-" + rand.Text()
	tree = groupTree{dir: filepath.Join(root, name), name: name}
	err := fs.ErrPermission
	if root != "" {
		err = os.Mkdir(tree.dir, 0o755)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		dir, err := process.FindControlGroups("/proc/self")
		assert.Error(t, err, "%s is taken for a delegated group", dir)
		return tree, false
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		testdrive.Eventually(t, "no group is left behind", func() bool { return removeTree(tree.dir) == nil })
	})
	controllers, err := os.ReadFile(filepath.Join(tree.dir, "cgroup.controllers"))
	require.NoError(t, err)
	tree.memory = slices.Contains(strings.Fields(string(controllers)), "memory")
	return tree, true
}

// cgroup2Mount is where the whole tree is mounted, or "".
func cgroup2Mount(t *testing.T) string {
	mounts, err := procfs.GetMounts()
	require.NoError(t, err)
	for _, m := range mounts {
		if m.Root == "/" && m.FSType == "cgroup2" {
			return m.MountPoint
		}
	}
	return ""
}

// removeTree removes groups, from the leaves on.
func removeTree(dir string) error {
	below, err := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
	for _, file := range below {
		err = errors.Join(err, removeTree(filepath.Dir(file)))
	}
	return errors.Join(err, unix.Rmdir(dir))
}

// sleepIn starts a process in a group, which is made if it is not there.
func (g groupTree) sleepIn(t *testing.T, below string) (proc string, end func()) {
	require.NoError(t, os.MkdirAll(filepath.Join(g.dir, below), 0o755))
	dir, err := os.Open(filepath.Join(g.dir, below))
	require.NoError(t, err)
	defer dir.Close()
	cmd := osexec.CommandContext(t.Context(), "sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	require.NoError(t, cmd.Start())
	end = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	return filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid)), end
}

// groupOf names the group of a process, below the tree's own.
func (g groupTree) groupOf(t *testing.T, pid int) string {
	p, err := procfs.NewProc(pid)
	require.NoError(t, err)
	groups, err := p.Cgroups()
	require.NoError(t, err)
	for _, group := range groups {
		if below, found := strings.CutPrefix(group.Path, g.name); found && group.HierarchyID == 0 {
			return below
		}
	}
	return fmt.Sprint("outside: ", groups)
}

func (g groupTree) groups(t *testing.T) (names []string) {
	files, err := filepath.Glob(filepath.Join(g.dir, "*", "cgroup.procs"))
	require.NoError(t, err)
	for _, file := range files {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}
	return names
}

// Groups are made only where systemd says that they may be, whoever the broker runs as.
func TestOnlyDelegatedControlGroupsAreUsed(t *testing.T) {
	t.Parallel()
	tree, ok := makeGroupTree(t)
	if !ok {
		return
	}
	expect := func(proc, want string) {
		dir, err := process.FindControlGroups(proc)
		if err == nil {
			err = errors.New("found " + dir)
		}
		assert.True(t, strings.Contains(err.Error(), want), "%v, want %q", err, want)
	}
	broker, _ := tree.sleepIn(t, "broker")
	expect(broker, "has not delegated the control group "+tree.name)
	require.NoError(t, unix.Setxattr(tree.dir, "user.delegate", []byte("1"), 0)) // as systemd does
	if tree.memory {
		expect(broker, "found "+tree.dir)
	} else {
		expect(broker, "the control group "+tree.name+" cannot limit memory")
	}
	alone, _ := tree.sleepIn(t, "") // as systemd before 254 starts it
	expect(alone, "has not delegated the control group /, ")
	below, _ := tree.sleepIn(t, "broker/below")
	expect(below, "has not delegated the control group "+tree.name+"/broker, ")
	expect(broker, "the control group "+tree.name+"/broker has groups below it")
}

// What the files in /proc say on hosts that this one is not.
func TestControlGroupsOfOtherHosts(t *testing.T) {
	t.Parallel()
	const unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	for name, host := range map[string]struct{ cgroup, mounts, want string }{
		"version 1":                {"4:memory:/broker\n", unified, "no control groups of version 2"},
		"container":                {"0::/\n", unified, "no group above the control group / is mounted"},
		"outside of the namespace": {"0::/../broker\n", unified, "no group above the control group /../broker is mounted"},
		"not mounted":              {"0::/a/broker\n", "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", "no group above"},
		"its own group alone is mounted": {"0::/a/broker\n", strings.Replace(unified, " / ", " /a/broker ", 1),
			"no group above"},
		"another group is mounted": {"0::/a/broker\n", strings.Replace(unified, " / ", " /b ", 1), "no group above"},
		"gone":                     {"0::/mysql-broker-test/none (deleted)\n", unified, "has not delegated the control group /mysql-broker-test,"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proc := t.TempDir()
			for file, text := range map[string]string{"cgroup": host.cgroup, "mountinfo": host.mounts} {
				require.NoError(t, os.WriteFile(filepath.Join(proc, file), []byte(text), 0o600))
			}
			dir, err := process.FindControlGroups(proc)
			assert.True(t, err != nil && strings.Contains(err.Error(), host.want), "%s, %v; want %q", dir, err, host.want)
		})
	}
}

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
			pid := pidOf(t, cfg, spec.ID)
			db := connect(t, spec, launch(t, l, spec))
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			testdrive.Eventually(t, what, func() bool { return !alive(pid) && db.PingContext(t.Context()) == nil })
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
		testdrive.Eventually(t, "operators are told", func() bool {
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
