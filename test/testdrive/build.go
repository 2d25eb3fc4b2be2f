package testdrive

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
)

// binaryFor is the path of the broker's program, with fault points if the environment asks for them.
func binaryFor(t testing.TB, env map[string]string) string {
	if env["FAULT_SOCKET"] != "" {
		return program(t, "mysql-broker-faults", ownSources, append(raceOption, "-tags", "faults")...)
	}
	return Binary(t)
}

// Binary is the path of the broker's program, mysql-broker.
func Binary(t testing.TB) string { return program(t, "mysql-broker", ownSources, raceOption...) }

func ownSources(string) (string, error) { return Root(), nil }

// program is the path of a variant of the broker, which is compiled once for all tests of a run. sources returns where
// its sources are; dir is for what has to be unpacked.
func program(t testing.TB, name string, sources func(dir string) (string, error), options ...string) string {
	return servers.Made(t, filepath.Join("programs"+raceSuffix, name), func(path string) error {
		root, err := sources(filepath.Dir(path))
		if err != nil {
			return err
		}
		args := append([]string{"build", "-buildvcs=false", "-o", path}, options...)
		command := exec.Command("go", append(args, "./cmd/mysql-broker")...)
		command.Dir = root
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build the broker: %w\n%s", err, out)
		}
		return nil
	})
}

// previous is the path of the broker of the previous release, which runs beside this one during an upgrade. It is built
// without the race detector: it is this release that is tested.
func previous(t testing.TB) string { return program(t, "mysql-broker-previous", previousSources) }

// previousRelease is the commit of the previous release: see releaseBefore.
var previousRelease = sync.OnceValues(func() (string, error) { return releaseBefore(Root()) })

// releaseBefore finds the commit of the release from which HEAD is upgraded: the newest one before HEAD. If there is
// none, it is HEAD itself, and the upgrade is to the uncommitted changes.
//
// The commit of a release is the one that adds its heading to CHANGELOG.md: what has no date is not released. It is looked
// up because clones need not have tags, and a commit cannot contain its own id.
func releaseBefore(dir string) (commit string, err error) {
	shallow, err := git(dir, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return "", err
	}
	if shallow != "false" {
		return "", errors.New("this is a shallow clone, which lacks the previous release: `git fetch --unshallow` gets it")
	}
	head, err := git(dir, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	with, err := git(dir, "log", "--format=%H", `-G^## \[[0-9]+\.[0-9]+\.[0-9]+\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$`, "HEAD", "--",
		"CHANGELOG.md")
	if err != nil {
		return "", err
	}
	before := slices.DeleteFunc(strings.Fields(with), func(commit string) bool { return commit == head })
	return append(before, head)[0], nil // the newest comes first
}

// git runs git on a repository that may be another user's, and returns what it prints without the end of the line.
func git(dir string, args ...string) (string, error) {
	command := exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", dir}, args...)...)
	var complaint strings.Builder
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

func previousSources(dir string) (string, error) {
	commit, err := previousRelease()
	if err != nil {
		return "", fmt.Errorf("find the previous release: %w", err)
	}
	sources := filepath.Join(dir, "sources-previous")
	if err := errors.Join(os.RemoveAll(sources), os.Mkdir(sources, 0o755)); err != nil {
		return "", err
	}
	archive := filepath.Join(sources, "sources.tar")
	if _, err := git(Root(), "archive", "--output", archive, commit); err != nil {
		return "", fmt.Errorf("get the sources of the previous release: %w", err)
	}
	if out, err := exec.Command("tar", "-xf", archive, "-C", sources).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack the sources of the previous release: %w\n%s", err, out)
	}
	return sources, nil
}

// PreviousCatalog is the catalog of the previous release, which may not know all keys of a newer one.
func PreviousCatalog(t testing.TB) (path string) {
	commit, err := previousRelease()
	require.NoError(t, err, "find the previous release")
	content, err := git(Root(), "show", commit+":catalog.yml")
	require.NoError(t, err, "get the catalog of the previous release")
	path = filepath.Join(t.TempDir(), "catalog.yml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
