package testdrive

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changelog is what CHANGELOG.md says with these releases, the newest first.
func changelog(releases ...string) string {
	text := "# Changelog\n\n## [Unreleased]\n"
	for _, r := range releases {
		text += "\n## [" + r + "] - 2026-11-22\n\nText.\n"
	}
	return text
}

func TestReleaseBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) string {
		command := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=test", "-c", "user.email=test@example.com"},
			args...)...)
		command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := command.CombinedOutput()
		require.NoError(t, err, "git %q: %s", args, out)
		return strings.TrimSpace(string(out))
	}
	commit := func(text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(text), 0o600))
		run("add", "CHANGELOG.md")
		run("commit", "--quiet", "--allow-empty", "--message", "a change")
		return run("rev-parse", "HEAD")
	}
	expect := func(want string) {
		got, err := releaseBefore(dir)
		assert.True(t, err == nil && got == want, "the previous release is %q, %v instead of %s", got, err, want)
	}
	run("init", "--quiet")
	expect(commit(changelog())) // before the first release
	expect(commit(strings.Replace(changelog("0.1.0"), "2026-11-22", "unreleased", 1)))
	first := commit(changelog("0.1.0"))
	expect(first) // there is none before
	commit(changelog("0.1.0") + "\nMore.\n")
	expect(first)
	second := commit(changelog("0.2.0", "0.1.0"))
	expect(first) // whoever gets the second has the first
	commit(changelog("0.2.0", "0.1.0") + "\nMore.\n")
	run("tag", "v0.3.0") // tags decide nothing
	expect(second)

	// The oldest commit of a shallow clone seems to have made all that is there.
	shallow := filepath.Join(t.TempDir(), "clone")
	run("clone", "--quiet", "--depth=1", "file://"+dir, shallow)
	_, err := releaseBefore(shallow)
	assert.ErrorContains(t, err, "--unshallow")
}
