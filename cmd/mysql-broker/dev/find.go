package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"mysql-broker/cmd/mysql-broker/dev/pgcluster"
	"mysql-broker/provisioner/launcher/mysqld"
)

// findPrograms returns the server to run. Its error says how to install what is missing.
func findPrograms(path string) (mysqld.Binary, error) {
	binary, err := mysqld.ChooseBinary(path)
	if err != nil && path != "" {
		return binary, err
	}
	missing, packages := []string{}, []string{}
	if pgcluster.Find() != nil {
		missing, packages = append(missing, "PostgreSQL"), append(packages, "postgresql")
	}
	if err != nil {
		missing = append(missing, "MariaDB (10.6 or later) or MySQL (8.0 or later)")
		packages = append(packages, "mariadb-server-core", "mariadb-client-core")
	}
	if len(missing) > 0 {
		return binary, fmt.Errorf("not installed: %s. On Debian or Ubuntu, run as root: apt-get install %s",
			strings.Join(missing, "; "), strings.Join(packages, " "))
	}
	return binary, nil
}

// shippedCatalog returns the catalog of this directory, of the release that the program is in, or of the package.
func shippedCatalog() ([]byte, error) {
	paths := []string{"catalog.yml"}
	if program, err := os.Executable(); err == nil {
		paths = append(paths, filepath.Join(filepath.Dir(filepath.Dir(program)), "catalog.yml"))
	}
	paths = append(paths, "/etc/mysql-broker/catalog.yml")
	for _, path := range paths {
		text, err := os.ReadFile(path) // #nosec G304 -- one of the paths above
		if !errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
	}
	return nil, fmt.Errorf("none of %s exists; set CATALOG to the path of a catalog", strings.Join(paths, ", "))
}

// choices are what the shipped plans leave to operators, because it costs more.
var choices = regexp.MustCompile(`(?m)^( +)# (keep_deleted_days: .*)$`)

// trialCatalog writes the shipped catalog with all choices to the state directory, where commands find it.
func trialCatalog(dir string) (path string, err error) {
	text, err := shippedCatalog()
	if err != nil {
		return "", fmt.Errorf("find the catalog: %w", err)
	}
	path = filepath.Join(dir, "catalog.yml")
	if err := os.WriteFile(path, choices.ReplaceAll(text, []byte("$1$2")), 0o600); err != nil {
		return "", fmt.Errorf("write the catalog: %w", err)
	}
	return path, nil
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)

func quoteIfNeeded(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return quote(word)
}
