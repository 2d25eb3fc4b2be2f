// Package deploy tests what operators deploy with: what is in the folder deploy, manifest.yml, and the documents.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// knownFiles are the work tree's as git would add them: those that are new are among them, those that are ignored or
// were deleted are not.
func knownFiles(t *testing.T, patterns ...string) []string {
	t.Helper()
	out, err := git(append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"},
		patterns...)...).Output()
	require.NoError(t, err)
	return slices.DeleteFunc(strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), func(name string) bool {
		_, err := os.Lstat(path(name))
		return os.IsNotExist(err)
	})
}

func git(args ...string) *exec.Cmd {
	return exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", path("")}, args...)...)
}

// What operators are told to write their secrets into is kept out of git.
func TestSecretsAreIgnored(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"vars.yml", "deploy/kubernetes/mycluster/broker.env", "mycluster/broker.env"} {
		out, err := git("check-ignore", "--quiet", name).CombinedOutput()
		assert.NoError(t, err, "git would add %s: %v %s", name, err, out)
	}
}

func TestMain(m *testing.M) { servers.Main(m) }

// path is that of a file of the project.
func path(name string) string { return filepath.Join(testdrive.Root(), name) }

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(path(name))
	require.NoError(t, err)
	return string(text)
}

// shellcheck knows what shells do that nobody expects.
func TestScripts(t *testing.T) {
	t.Parallel()
	var scripts []string
	for _, pattern := range []string{".ci/run", "deploy/*/*.sh", "provisioner/launcher/*/*.sh", "test/*.sh",
		"test/*/*.sh"} {
		found, err := filepath.Glob(path(pattern))
		require.True(t, err == nil && found != nil, "%s: %v, %v", pattern, found, err)
		scripts = append(scripts, found...)
	}
	expectSilence(t, "shellcheck", append([]string{"--severity=warning"}, scripts...)...)
}
