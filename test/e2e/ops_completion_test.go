package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestCompletion runs what shells run when somebody presses TAB.
func TestCompletion(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := twoServers(t, server)
	p := testdrive.StartPlatform(t, server, env)
	i := p.Provisioned(t, "shared-small", nil)
	b, _ := i.Bound(t, nil)
	task := p.Operator(env).IDs(t, "task", "tasks", "--limit", "1")[0]
	for typed, want := range map[string]string{
		"inst":                      "instances",
		"instances --plan shared-l": "shared-large",
		"instances --state cre":     "create-failed",
		"instances " + i.ID[:6]:     i.ID,
		"bindings " + i.ID + " ":    b.BindingID,
		"tasks retry " + task:       task,
		"doctor --rep":              "--repair",
		"drain ro":                  "roomy",
		"completion ba":             "bash",
	} {
		out := complete(t, env, typed)
		found := slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
			word, _, _ := strings.Cut(line, "\t")
			return word == want
		})
		if !found {
			t.Errorf("%q is completed by %q, without %q", typed, out, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := testdrive.Run(t, nil, "completion", shell).Expect(t, 0).Stdout
		if !strings.Contains(script, "mysql-broker") {
			t.Errorf("completion %s printed %q", shell, script)
		}
	}
}

// complete returns what TAB offers. The program offers nothing where PostgreSQL does not answer in time, as on a busy
// machine. It says so in a file, and people press TAB again.
func complete(t *testing.T, env map[string]string, typed string) (offered string) {
	t.Helper()
	env = maps.Clone(env)
	env["BASH_COMP_DEBUG_FILE"] = filepath.Join(t.TempDir(), "complaints")
	args := append([]string{"__complete"}, strings.Split(typed, " ")...)
	testdrive.Eventually(t, limits.Stuck, "PostgreSQL answers in time", func() bool {
		offered = testdrive.Run(t, env, args...).Stdout
		complaints, err := os.ReadFile(env["BASH_COMP_DEBUG_FILE"])
		if err == nil {
			err = os.Remove(env["BASH_COMP_DEBUG_FILE"])
		}
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return !strings.Contains(string(complaints), "deadline exceeded")
	})
	return offered
}
