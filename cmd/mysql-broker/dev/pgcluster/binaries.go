package pgcluster

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// debianBinaries matches the directories of Debian and Ubuntu for each major version, which are not in PATH.
const debianBinaries = "/usr/lib/postgresql/*/bin/initdb"

// Find returns an error unless PostgreSQL's server is installed.
func Find() error {
	_, err := findBinaries()
	return err
}

// findBinaries returns the directory of initdb and postgres: the one in PATH, or the newest of Debian's.
func findBinaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		// The directory of a link in PATH may not contain postgres.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", err
		}
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob(debianBinaries)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", errors.New("no PostgreSQL server programs in PATH or /usr/lib/postgresql: install postgresql")
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// version is the major version in a path that debianBinaries matches.
func version(path string) int {
	major, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return major
}
