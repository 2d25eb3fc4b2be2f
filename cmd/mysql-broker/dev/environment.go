package dev

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/launcher/process/files"
)

// environmentFile, in the state directory, is what operators' commands need of the environment, in words of a shell.
const environmentFile = "environment"

// Environment is the given one or, if that says nothing of PostgreSQL, the one that Run left in the state directory;
// then file is where it was found. The given variables come first.
func Environment(given func(string) string) (getenv func(string) string, file string, err error) {
	if given("DATABASE_URL") != "" || given("VCAP_SERVICES") != "" {
		return given, "", nil
	}
	file = filepath.Join(cmp.Or(given("MYSQL_BROKER_DEV_DIR"), defaultDir), environmentFile)
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return given, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	// It names servers to give passwords to, and a program to run.
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return nil, "", fmt.Errorf("%s is not read: it is another user's, or others may read or write it", file)
	}
	raw := make([]byte, info.Size())
	if _, err := f.ReadAt(raw, 0); err != nil {
		return nil, "", fmt.Errorf("read %s: %w", file, err)
	}
	variables := parseEnvironment(string(raw))
	return func(name string) string { return cmp.Or(given(name), variables[name]) }, file, nil
}

// variablesIn adds to the variables of the servers what is in the state directory.
func variablesIn(dir, catalogPath string, servers map[string]string) (map[string]string, error) {
	catalogPath, err := filepath.Abs(catalogPath)
	if err != nil {
		return nil, err
	}
	backups := filepath.Join(dir, "backups")
	if err := os.MkdirAll(backups, 0o700); err != nil {
		return nil, err
	}
	variables := map[string]string{"CATALOG": catalogPath, "LAUNCHER": launchers.Here,
		"LAUNCHER_DIR": filepath.Join(dir, "dedicated"), "BACKUP_STORE": (&url.URL{Scheme: "file", Path: backups}).String()}
	maps.Copy(variables, servers)
	return variables, nil
}

// writeEnvironment leaves for Environment, and for shells to source, what commands need to find this broker's servers.
func writeEnvironment(dir string, variables map[string]string) error {
	var b strings.Builder
	b.WriteString("# For the shell: . " + filepath.Join(dir, environmentFile) + "\n")
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		b.WriteString("export " + name + "=" + quote(variables[name]) + "\n")
	}
	if err := files.Replace(filepath.Join(dir, environmentFile), []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("leave the environment for commands: %w", err)
	}
	return nil
}

const escapedQuote = `'\''`

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", escapedQuote) + "'" }

// parseEnvironment reads what writeEnvironment wrote, and nothing else that a shell may understand.
func parseEnvironment(text string) map[string]string {
	variables := map[string]string{}
	for line := range strings.Lines(text) {
		assignment, ok := strings.CutPrefix(strings.TrimSuffix(line, "'\n"), "export ")
		name, value, found := strings.Cut(assignment, "='")
		if ok && found {
			variables[name] = strings.ReplaceAll(value, escapedQuote, "'")
		}
	}
	return variables
}
