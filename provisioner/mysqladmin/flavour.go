package mysqladmin

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Flavour is the kind of a server, MySQL or MariaDB, and its version.
type Flavour struct {
	Name    string // "MySQL" or "MariaDB"
	Version string // as the server reports it, such as "8.0.36" or "10.11.19-MariaDB-log"
}

// Names of flavours.
const (
	MySQL   = "MySQL"
	MariaDB = "MariaDB"
)

// String is for people: "MySQL 8.0.36".
func (f Flavour) String() string { return f.Name + " " + f.Version }

// Number is the version without what comes after its numbers: "10.11.19".
func (f Flavour) Number() string {
	if end := strings.IndexFunc(f.Version, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		return f.Version[:end]
	}
	return f.Version
}

// Flavour asks the server for its flavour. A version that is not supported is an error.
func (s *Server) Flavour(ctx context.Context) (Flavour, error) {
	var version string
	if err := s.reads.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return Flavour{}, s.explain("ask for the version", err)
	}
	f, err := parseVersion(version)
	return f, s.explain("ask for the version", err)
}

// before reports whether the version is older than another.
func (f Flavour) before(major, minor, patch int) bool {
	var version [3]int
	_, _ = fmt.Sscanf(f.Version, "%d.%d.%d", &version[0], &version[1], &version[2]) // missing numbers are 0
	return slices.Compare(version[:], []int{major, minor, patch}) < 0
}

// parseVersion derives the flavour from the result of VERSION().
// https://mariadb.com/docs/server/reference/sql-functions/secondary-functions/information-functions/version
func parseVersion(version string) (Flavour, error) {
	f := Flavour{Name: MySQL, Version: version}
	if strings.Contains(version, MariaDB) {
		f.Name = MariaDB
	}
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return Flavour{}, fmt.Errorf("version %q is not understood: %w", version, err)
	}
	oldestMajor, oldestMinor := Oldest(f.Name)
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return Flavour{}, fmt.Errorf("%s is too old: %d.%d or later is needed", f, oldestMajor, oldestMinor)
	}
	return f, nil
}

// Oldest is the oldest version supported of the flavour with that name.
func Oldest(name string) (major, minor int) {
	oldest := dialects[name].oldest
	return oldest.major, oldest.minor
}
