package operators

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Launchers work side by side: a server is at the launcher that its plan names, with a label that tells whose it is. A
// broker that lacks the launcher of a task leaves it to one that has it.
func TestTwoLaunchers(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	plain := testdrive.Environment(t, s)
	env := testdrive.Launchers(t, plain, s.Flavour, [2]string{"near", "far"})
	p := testdrive.StartPlatform(t, s, env)
	small, large := p.OwnInstance(t, "dedicated-small"), p.OwnInstance(t, "dedicated-large")
	for _, i := range []testdrive.Instance{small, large} {
		i.Await(t, i.BeginProvision(t))
	}
	expectServerOf(t, env["LAUNCHER_NEAR_DIR"], small)
	expectServerOf(t, env["LAUNCHER_FAR_DIR"], large)
	for _, i := range []testdrive.Instance{small, large} {
		b := i.NewBinding()
		b.Bind(t, nil)
		b.Unbind(t)
	}
	testdrive.RunDoctor(t, env).Expect(t, 0)
	small.Remove(t)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_NEAR_DIR"])
	expectServerOf(t, env["LAUNCHER_FAR_DIR"], large)

	// The next broker has one of the launchers only.
	p.Kill(t)
	nearOnly := maps.Clone(env)
	maps.DeleteFunc(nearOnly, func(name, _ string) bool { return strings.HasPrefix(name, "LAUNCHER_FAR_") })
	nearOnly["LAUNCHER"], nearOnly["CATALOG"] = "near=process", plain["CATALOG"]
	for name, value := range env {
		if own, ok := strings.CutPrefix(name, "LAUNCHER_NEAR_"); ok {
			delete(nearOnly, name)
			nearOnly["LAUNCHER_"+own] = value
		}
	}
	lacking := testdrive.StartPlatform(t, s, nearOnly)
	operation := large.Via(lacking).Deprovision(t, testdrive.Async).Expect(t, 202).String("operation")
	testdrive.Eventually(t, limits.Stuck, "the broker has tried it twice", func() bool {
		return strings.Count(lacking.Log(), "retrying later") >= 2
	})
	var attempt int
	testdrive.OpenTasks(t, env).Scan(t, &attempt, "SELECT attempt FROM task WHERE finished_at IS NULL AND instance_id = '"+large.ID+"'")
	assert.True(t, attempt <= 1, "what this broker cannot do counts as attempt %d", attempt)
	expectServerOf(t, env["LAUNCHER_FAR_DIR"], large)
	large.Via(testdrive.StartPlatform(t, s, env)).Await(t, operation)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_FAR_DIR"])
}

// expectServerOf looks into the directory of a launcher for the one server there.
func expectServerOf(t *testing.T, dir string, i testdrive.Instance) {
	t.Helper()
	states, err := filepath.Glob(filepath.Join(dir, "instances", "*", "state.json"))
	require.True(t, err == nil && len(states) == 1, "in %s are the servers %q, %v", dir, states, err)
	state, err := os.ReadFile(states[0])
	assert.True(t, err == nil && strings.Contains(string(state), i.ID),
		"the labels do not say that the server is of %s: %s, %v", i.ID, state, err)
}
