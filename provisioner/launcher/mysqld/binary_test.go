package mysqld

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFindBinariesListsEachOnce(t *testing.T) {
	t.Parallel()
	for _, installed := range FindBinaries(filepath.SplitList(os.Getenv("MYSQLD"))...) {
		link := filepath.Join(t.TempDir(), "mysqld")
		require.NoError(t, os.Symlink(installed.Path, link))
		count := 0
		for _, b := range FindBinaries(link, installed.Path, filepath.Join(t.TempDir(), "missing")) {
			if b == installed {
				count++
			}
		}
		assert.Equal(t, 1, count, "%s is listed %d times", installed.Path, count)
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		line    string // as mysqld --version prints it
		flavour string // "" where the server is refused
		version string
	}{
		{"/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))", MySQL, "9.7.4"},
		{"mysqld  Ver 8.0.11 for Linux on x86_64 (MySQL Community Server - GPL)", MySQL, "8.0.11"},
		{"mysqld  Ver 5.7.44 for Linux on x86_64 (MySQL Community Server (GPL))", "", ""},
		{"mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64", MariaDB, "10.11.19"},
		{"mariadbd  Ver 10.6.0-MariaDB for Linux on x86_64", MariaDB, "10.6.0"},
		{"mysqld  Ver 10.5.27-MariaDB for Linux on x86_64", "", ""},
		{"something else", "", ""},
	} {
		b, err := parseVersion(test.line)
		assert.Equal(t, test.flavour == "", err != nil, "%q: error %v", test.line, err)
		assert.True(t, b.Flavour == test.flavour && b.Version == test.version,
			"%q: %s %s, want %s %s", test.line, b.Flavour, b.Version, test.flavour, test.version)
	}
}
