package testdrive

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// previousRelease is the commit of the release before this one: move it along at each release. Brokers of both run side
// by side during an upgrade, so migrations must leave a schema that the older one can work with.
const previousRelease = "95c083c1a56bd9162916f7f87a7a7f67bc937b3e"

// previous is built without the race detector: it is this release that is tested.
var previous = &program{name: "mysql-broker-" + previousRelease, sources: previousSources}

func previousSources(dir string) (string, error) {
	sources := filepath.Join(dir, "sources-"+previousRelease)
	if err := errors.Join(os.RemoveAll(sources), os.Mkdir(sources, 0o755)); err != nil {
		return "", err
	}
	archive := filepath.Join(sources, "sources.tar")
	for _, command := range [][]string{
		{"git", "-c", "safe.directory=*", "-C", Root(), "archive", "--output", archive, previousRelease},
		{"tar", "-xf", archive, "-C", sources},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("get the sources of the previous release (a shallow clone lacks them; `git fetch "+
				"--unshallow` gets them): %w\n%s", err, strings.TrimSpace(string(out)))
		}
	}
	return sources, nil
}

// previousCatalog is the catalog of the previous release: a newer one may have keys that it does not know.
func previousCatalog(t testing.TB) (path string) {
	t.Helper()
	content, err := exec.Command("git", "-c", "safe.directory=*", "-C", Root(), "show", previousRelease+":catalog.yml").Output()
	path = filepath.Join(t.TempDir(), "catalog.yml")
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatalf("get the catalog of the previous release: %v", err)
	}
	return path
}
