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

// repository is one with a CHANGELOG.md, whose author needs no settings.
type repository struct{ dir string }

func newRepository(t *testing.T) repository {
	r := repository{t.TempDir()}
	r.git(t, "init", "--quiet")
	return r
}

func (r repository) git(t *testing.T, args ...string) string {
	command := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=test", "-c", "user.email=test@example.com",
		"-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"}, args...)...)
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := command.CombinedOutput()
	require.True(t, err == nil, "git %s: %v\n%s", strings.Join(args, " "), err, out)
	return strings.TrimSpace(string(out))
}

// commit records a CHANGELOG.md and returns the commit.
func (r repository) commit(t *testing.T, text string) string {
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "CHANGELOG.md"), []byte(text), 0o600))
	r.git(t, "add", "CHANGELOG.md")
	r.git(t, "commit", "--quiet", "--allow-empty", "--message", "a change")
	return r.git(t, "rev-parse", "HEAD")
}

func (r repository) expect(t *testing.T, want string) {
	got, err := releaseBefore(r.dir)
	assert.True(t, err == nil && got == want, "the previous release is %q, %v instead of %s", got, err, want)
}

func TestReleaseBefore(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.expect(t, r.commit(t, changelog())) // before the first release
	unreleased := strings.Replace(changelog("0.1.0"), "2026-11-22", "unreleased", 1)
	r.expect(t, r.commit(t, unreleased))
	first := r.commit(t, changelog("0.1.0"))
	r.expect(t, first) // there is none before
	r.commit(t, changelog("0.1.0")+"\nMore.\n")
	r.expect(t, first)
	second := r.commit(t, changelog("0.2.0", "0.1.0"))
	r.expect(t, first) // whoever gets the second has the first
	r.commit(t, changelog("0.2.0", "0.1.0")+"\nMore.\n")
	r.expect(t, second)
	r.git(t, "tag", "v0.3.0") // tags decide nothing
	r.expect(t, second)

	// The oldest commit of a shallow clone seems to have made all that is there.
	shallow := repository{filepath.Join(t.TempDir(), "clone")}
	r.git(t, "clone", "--quiet", "--depth=1", "file://"+r.dir, shallow.dir)
	got, err := releaseBefore(shallow.dir)
	assert.True(t, err != nil && strings.Contains(err.Error(), "--unshallow"),
		"in a shallow clone, it is %q, %v", got, err)
	// A clone without tags will do.
	clone := repository{filepath.Join(t.TempDir(), "clone")}
	r.git(t, "clone", "--quiet", "--no-tags", "file://"+r.dir, clone.dir)
	clone.expect(t, second)
}
