package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed mysqld.lock
var lock string

// locked is a package of Debian in mysqld.lock.
type locked struct {
	flavour, version string // of the server whose image has it
	arch             string // of the image
	sum              string // SHA-256
	file             string // NAME_VERSION_ARCHITECTURE.deb, escaped as in a URL
	path             string // in Debian's archives, where names have no epoch, escaped too
}

// name is that of the package.
func (p locked) name() string {
	name, _, _ := strings.Cut(p.file, "_")
	return name
}

func (p locked) debianVersion() string {
	return strings.ReplaceAll(strings.Split(p.file, "_")[1], "%3a", ":") // of the epoch
}

// purl names the package in an SBOM. https://github.com/package-url/purl-spec
func (p locked) purl() string {
	arch := strings.TrimSuffix(strings.Split(p.file, "_")[2], ".deb") // or all
	return "pkg:deb/debian/" + p.name() + "@" + url.QueryEscape(p.debianVersion()) + "?arch=" + arch
}

var lockedAt = regexp.MustCompile(`^#.* at (\S+)\n`)

// readLock returns what mysqld.lock names, and when it was made, in the form of snapshot.debian.org.
func readLock() (all []locked, at string, err error) {
	made := lockedAt.FindStringSubmatch(lock)
	if made == nil {
		return nil, "", errors.New("mysqld.lock does not begin with the time at which it was made")
	}
	for line := range strings.Lines(strings.TrimPrefix(lock, made[0])) {
		fields := strings.Fields(line)
		if len(fields) != 6 {
			return nil, "", fmt.Errorf("mysqld.lock: not a package: %s", line)
		}
		all = append(all, locked{fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]})
	}
	return all, made[1], nil
}

// kept is where the package is kept once it was fetched.
func (p locked) kept() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "mysql-broker", "debian", p.sum+".deb"), err
}

// missing returns the packages that have not been fetched, each once: those for all architectures are locked for each.
func missing(all []locked) (rest []locked, err error) {
	for _, p := range all {
		file, err := p.kept()
		if err != nil {
			return nil, err
		}
		same := func(of locked) bool { return of.sum == p.sum }
		if _, err := os.Stat(file); err != nil && !slices.ContainsFunc(rest, same) {
			rest = append(rest, p)
		}
	}
	return rest, nil
}

// fetchPackages fetches the packages that are not there yet.
func fetchPackages() error {
	all, at, err := readLock()
	if err != nil {
		return err
	}
	rest, err := missing(all)
	if err != nil {
		return err
	}
	for _, p := range rest {
		if err := p.fetch(at); err != nil {
			return err
		}
	}
	fmt.Printf("%d packages, %d of them fetched now\n", len(all), len(rest))
	return nil
}

// fetch keeps the package. Debian's archive of today has it until there is a newer one.
func (p locked) fetch(at string) error {
	file, err := p.kept()
	if err != nil {
		return err
	}
	archive, rest, _ := strings.Cut(p.path, "/")
	text, err := p.get("https://deb.debian.org/" + p.path)
	if err != nil {
		var old error
		if text, old = p.get("https://snapshot.debian.org/archive/" + archive + "/" + at + "/" + rest); old != nil {
			return errors.Join(err, old)
		}
	}
	temporary := file + ".new"
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
		os.WriteFile(temporary, text, 0o644), // #nosec G306 -- public
		os.Rename(temporary, file))
}

func (p locked) get(from string) ([]byte, error) {
	client := http.Client{Timeout: 10 * time.Minute}
	resp, err := client.Get(from)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", from, resp.Status)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if sum(text) != p.sum {
		return nil, fmt.Errorf("%s does not match its checksum in mysqld.lock", from)
	}
	return text, nil
}
