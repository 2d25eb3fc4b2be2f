// Package mysqld contains what all launchers know about the server program: the installed versions, their settings and
// memory, and the initial SQL of a new server.
package mysqld

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"mysql-broker/provisioner/mysqladmin"
)

// Flavours of server.
const (
	MySQL   = "mysql"
	MariaDB = "mariadb"
)

// Binary is a mysqld that can be run.
type Binary struct {
	Flavour string // MySQL or MariaDB
	Version string // e.g. 9.7.4 or 10.11.19
	Path    string // without symbolic links
	BaseDir string // the installation's root: --basedir
}

// ChooseBinaries reads the executables at paths, which are joined by commas, or finds one if paths is empty. They must
// be of one flavour.
func ChooseBinaries(paths string) (all []Binary, err error) {
	for path := range strings.SplitSeq(paths, ",") {
		b, err := ChooseBinary(strings.TrimSpace(path))
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && b.Flavour != all[0].Flavour {
			return nil, fmt.Errorf("%s is %s, and %s is %s: use a launcher for each flavour", all[0].Path, all[0].Flavour,
				b.Path, b.Flavour)
		}
		all = append(all, b)
	}
	return all, nil
}

// ChooseBinary reads the executable at path, or finds one if path is empty.
func ChooseBinary(path string) (Binary, error) {
	if path != "" {
		return ReadBinary(path)
	}
	found := FindBinaries()
	if len(found) == 0 {
		return Binary{}, errors.New("no mysqld (8.0 or later) or mariadbd (10.6 or later) is installed")
	}
	return found[0], nil
}

// FindBinaries returns the installed servers: first the executables in extra, then those in $PATH and in the
// directories that packages install servers to. It leaves out servers that are too old, see mysqladmin.Oldest, or that
// cannot be run.
func FindBinaries(extra ...string) []Binary {
	candidates := extra
	dirs := filepath.SplitList(os.Getenv("PATH"))
	dirs = append(dirs, "/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin")
	for _, dir := range dirs {
		candidates = append(candidates, filepath.Join(dir, "mysqld"), filepath.Join(dir, "mariadbd"))
	}
	var found []Binary
	seen := map[string]bool{}
	for _, candidate := range candidates {
		// One server often has two names: Debian's mysqld is a symbolic link to mariadbd.
		path, err := filepath.EvalSymlinks(candidate)
		if err != nil || seen[path] {
			continue
		}
		seen[path] = true
		if b, err := ReadBinary(path); err == nil {
			found = append(found, b)
		}
	}
	return found
}

// ReadBinary runs an executable to find out its flavour and version.
func ReadBinary(path string) (Binary, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Binary{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--no-defaults", "--version").Output()
	if err != nil {
		return Binary{}, fmt.Errorf("%s --version: %w", path, err)
	}
	b, err := parseVersion(string(out))
	if err != nil {
		return Binary{}, fmt.Errorf("%s: %w", path, err)
	}
	b.Path, b.BaseDir = path, filepath.Dir(filepath.Dir(path))
	return b, nil
}

var versionPattern = regexp.MustCompile(`Ver (\d+)\.(\d+)\.(\d+)`)

// parseVersion reads the line that mysqld --version prints.
func parseVersion(line string) (Binary, error) {
	m := versionPattern.FindStringSubmatch(line)
	if m == nil {
		return Binary{}, fmt.Errorf("unknown version %q", strings.TrimSpace(line))
	}
	flavour, name := MySQL, mysqladmin.MySQL
	if strings.Contains(line, "MariaDB") {
		flavour, name = MariaDB, mysqladmin.MariaDB
	}
	oldestMajor, oldestMinor := mysqladmin.Oldest(name)
	version := strings.TrimPrefix(m[0], "Ver ")
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if cmp.Or(cmp.Compare(major, oldestMajor), cmp.Compare(minor, oldestMinor)) < 0 {
		return Binary{}, fmt.Errorf("%s %s is too old: %d.%d or later is needed",
			flavour, version, oldestMajor, oldestMinor)
	}
	return Binary{Flavour: flavour, Version: version}, nil
}

// InstallScript returns the path of the program that creates a data directory for MariaDB.
func (b Binary) InstallScript() (string, error) {
	return b.tool("bin/mariadb-install-db", "scripts/mariadb-install-db", "bin/mysql_install_db",
		"scripts/mysql_install_db")
}

// UpgradeTool returns the path of the program that upgrades the system tables of MariaDB.
func (b Binary) UpgradeTool() (string, error) {
	return b.tool("bin/mariadb-upgrade", "bin/mysql_upgrade")
}

// tool returns the first of the programs that is installed.
func (b Binary) tool(names ...string) (string, error) {
	for _, name := range names {
		path := filepath.Join(b.BaseDir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s under %s", filepath.Base(names[0]), b.BaseDir)
}
