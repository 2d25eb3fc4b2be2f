// Package deploy tests what operators deploy with: what is in the folder deploy, manifest.yml, and the documents.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

func readFile(t *testing.T, name string) string { return testdrive.Shipped(t, name) }

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

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// docs/… as a document is called from the project's top folder
	reference = regexp.MustCompile(`\bdocs/[a-z]+\.md(#[a-z0-9-]+)?`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	anchor    = regexp.MustCompile(`(?m)^<a id="([a-z0-9-]+)"></a>$`)
	dropped   = regexp.MustCompile("[^a-z0-9 _-]")
	proof     = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]+)`")
)

// The tests that documents call proofs are there.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, file := range knownFiles(t, "*_test.go") {
		code.WriteString(readFile(t, file))
	}
	for _, document := range knownFiles(t, "*.md") {
		for _, m := range proof.FindAllStringSubmatch(readFile(t, document), -1) {
			assert.True(t, strings.Contains(code.String(), "\nfunc "+m[1]+"("), "%s: there is no %s", document, m[1])
		}
	}
}

// Links between the documents lead somewhere, to the very section, and so does what deploy says of docs: the alerts'
// links to the runbook.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, document := range knownFiles(t, "*.md") {
		for _, m := range link.FindAllStringSubmatch(readFile(t, document), -1) {
			if target := m[1]; !strings.Contains(target, "://") {
				name, section, _ := strings.Cut(target, "#")
				if name == "" {
					name = filepath.Base(document)
				}
				expectSection(t, document, filepath.Join(filepath.Dir(document), name), section)
				checked++
			}
		}
	}
	for _, file := range knownFiles(t, "deploy") {
		for _, target := range reference.FindAllString(readFile(t, file), -1) {
			name, section, _ := strings.Cut(target, "#")
			expectSection(t, file, name, section)
			checked++
		}
	}
	assert.True(t, checked >= 20, "only %d links were found", checked)
}

func expectSection(t *testing.T, from, file, section string) {
	_, err := os.Stat(path(file))
	require.NoError(t, err, "%s: a link leads to %s, which is not there", from, file)
	assert.False(t, section != "" && !anchors(readFile(t, file))[section],
		"%s: a link leads to %s, which has no section %s", from, file, section)
}

// anchors are those that GitHub gives to headings, in lower case, without punctuation, with dashes for spaces, and those
// on lines of their own.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range anchor.FindAllStringSubmatch(text, -1) {
		all[m[1]] = true
	}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		plain := dropped.ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return all
}
