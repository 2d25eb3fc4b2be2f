package process_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mysql-broker/provisioner/launcher/process"
)

func TestReadBinary(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		line    string // as mysqld --version prints it
		flavour string // "" where the server is refused
		version string
	}{
		{"/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))", process.MySQL, "9.7.4"},
		{"mysqld  Ver 8.0.11 for Linux on x86_64 (MySQL Community Server - GPL)", process.MySQL, "8.0.11"},
		{"mysqld  Ver 5.7.44 for Linux on x86_64 (MySQL Community Server (GPL))", "", ""},
		{"mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64", process.MariaDB, "10.11.19"},
		{"mariadbd  Ver 10.6.0-MariaDB for Linux on x86_64", process.MariaDB, "10.6.0"},
		{"mysqld  Ver 10.5.27-MariaDB for Linux on x86_64", "", ""},
		{"something else", "", ""},
	} {
		b, err := process.ReadBinary(script(t, test.line))
		if (err != nil) != (test.flavour == "") {
			t.Errorf("%q: error %v", test.line, err)
		}
		if b.Flavour != test.flavour || b.Version != test.version {
			t.Errorf("%q: %s %s, want %s %s", test.line, b.Flavour, b.Version, test.flavour, test.version)
		}
	}
}

func TestFindBinariesListsEachOnce(t *testing.T) {
	t.Parallel()
	path := script(t, "mysqld  Ver 8.4.6 for Linux on x86_64")
	link := filepath.Join(t.TempDir(), "mysqld")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	found := process.FindBinaries(link, path, filepath.Join(t.TempDir(), "missing"))
	count := 0
	for _, b := range found {
		if b.Path == path {
			count++
		}
	}
	if count != 1 || !slices.ContainsFunc(found, func(b process.Binary) bool { return b.Version == "8.4.6" }) {
		t.Errorf("found %v, want %s once", found, path)
	}
}

// script stands for an installed server that is only asked for its version.
func script(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mysqld")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+version+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
