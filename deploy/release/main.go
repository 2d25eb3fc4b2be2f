// Command release makes what operators download, in dist/: see README.md here. It needs no network, if the module cache
// has the broker's modules, and makes the same bytes from the same commit with the same Go wherever it runs. `release
// packages` fetches what images of mysqld are made of.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: release VERSION|packages")
		os.Exit(2)
	}
	do := func() error { return run(os.Args[1]) }
	if os.Args[1] == "packages" {
		do = fetchPackages
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// architectures are those for which a release has programs and images.
var architectures = []string{"amd64", "arm64"}

// release is what all files of a release have in common.
type release struct {
	version string
	commit  string
	time    time.Time // of every file in every archive
	root    string    // the project's top folder
	dist    string
}

var semantic = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

func run(version string) error {
	if !semantic.MatchString(version) {
		return fmt.Errorf("VERSION=%s is not a version such as 1.0.0 or 1.0.0-rc.1", version)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	r := &release{version: version, root: root, dist: filepath.Join(root, "dist")}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if stable, _, _ := strings.Cut(version, "-"); !strings.Contains(string(changelog), "\n## ["+stable+"] - ") {
		return fmt.Errorf("CHANGELOG.md has no heading \"## [%s] - …\"", stable)
	}
	if changed, err := r.git("status", "--porcelain"); err != nil {
		return err
	} else if changed != "" {
		return fmt.Errorf("a release is built from a commit; commit or remove these first:\n%s", changed)
	}
	if r.commit, err = r.git("rev-parse", "HEAD"); err != nil {
		return err
	}
	committed, err := r.git("log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	// https://reproducible-builds.org/specs/source-date-epoch/
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), committed), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.time = time.Unix(seconds, 0).UTC()
	if err := errors.Join(os.RemoveAll(r.dist), os.MkdirAll(r.dist, 0o755)); err != nil {
		return err
	}
	return r.make()
}

// git runs git on a repository that may be another user's.
func (r *release) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", r.root}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// make makes every artefact, then what describes them.
func (r *release) make() error {
	var programs []*program
	for _, arch := range architectures {
		p, err := r.build(arch)
		if err != nil {
			return err
		}
		programs = append(programs, p)
	}
	notices, err := notices(programs)
	if err != nil {
		return err
	}
	texts, err := describeCommands(r, programs)
	if err != nil {
		return err
	}
	if err := r.cloudFoundry(programs[0], notices); err != nil {
		return err
	}
	for _, p := range programs {
		if err := errors.Join(r.host(p, notices, texts), r.debian(p, notices, texts)); err != nil {
			return err
		}
	}
	digest, err := r.brokerImage(programs, notices)
	if err != nil {
		return err
	}
	images, err := r.serverImages()
	if err != nil {
		return err
	}
	if err := r.kubernetes(digest, images, notices); err != nil {
		return err
	}
	return r.describe(programs, images)
}
