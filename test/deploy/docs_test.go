package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	dropped = regexp.MustCompile("[^a-z0-9 _-]")
)

// Links between the documents lead somewhere, to the very section.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "-c", "safe.directory=*", "-C", path(""), "ls-files", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Fields(string(out))
	if len(documents) < 5 {
		t.Fatalf("only %q are documents", documents)
	}
	for _, document := range documents {
		for _, m := range link.FindAllStringSubmatch(readFile(t, document), -1) {
			if target := m[1]; !strings.Contains(target, "://") {
				expectTarget(t, document, target)
			}
		}
	}
}

func expectTarget(t *testing.T, document, target string) {
	t.Helper()
	name, section, _ := strings.Cut(target, "#")
	file := document
	if name != "" {
		file = filepath.Join(filepath.Dir(document), name)
	}
	if _, err := os.Stat(path(file)); err != nil {
		t.Errorf("%s: a link leads to %s, which is not there", document, target)
		return
	}
	if section != "" && !anchors(readFile(t, file))[section] {
		t.Errorf("%s: a link leads to %s, which has no such section", document, target)
	}
}

// anchors are those that GitHub gives to headings: in lower case, without punctuation, with dashes for spaces.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		plain := dropped.ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return all
}
