package servers

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
)

// Later returns a program of a later version of the same flavour, to upgrade to: one of $LATER_MYSQLD, or else the same
// program under the next version number. Debian packages one version of MySQL only.
func Later(t testing.TB, b mysqld.Binary) mysqld.Binary {
	for _, path := range filepath.SplitList(os.Getenv("LATER_MYSQLD")) {
		later, err := mysqld.ReadBinary(path)
		require.NoError(t, err)
		if later.Flavour == b.Flavour && launcher.CompareVersions(later.Version, b.Version) > 0 {
			return later
		}
	}
	require.False(t, strings.Contains(os.Getenv("REQUIRE_LATER"), b.Flavour),
		"$LATER_MYSQLD names no %s later than %s", b.Flavour, b.Version)
	return Renumbered(t, b)
}

// Renumbered returns the same program under the next version number, which it prints and reports in SQL.
func Renumbered(t testing.TB, b mysqld.Binary) mysqld.Binary {
	version := Next(b.Version)
	dir := Made(t, b.Flavour+"-"+version, func(dir string) error { return renumber(b, version, dir) })
	later, err := mysqld.ReadBinary(filepath.Join(dir, "bin", filepath.Base(b.Path)))
	require.NoError(t, err)
	return later
}

// Next returns a later version of the same length, so that it fits into the same place.
func Next(version string) string {
	at := strings.LastIndexByte(version, '.') + 1
	n, _ := strconv.Atoi(version[at:])
	return version[:at] + strings.Repeat("9", len(strconv.Itoa(n)))
}

func renumber(b mysqld.Binary, version, dir string) error {
	if version == b.Version {
		return fmt.Errorf("there is no version after %s", version)
	}
	program, err := os.ReadFile(b.Path)
	if err != nil {
		return err
	}
	program = bytes.ReplaceAll(program, []byte(b.Version), []byte(version))
	if err := LinkTree(b, dir); err != nil {
		return err
	}
	return WriteProgram(filepath.Join(dir, "bin", filepath.Base(b.Path)), program)
}

// Altered makes an installation like that of a program in which another one, or that one, is a script. bin/real is the
// program of real.
func Altered(t *testing.T, b, real mysqld.Binary, name, script string) mysqld.Binary {
	dir, err := os.MkdirTemp("", "altered") // containers pass through as another user
	require.NoError(t, errors.Join(err, os.Chmod(dir, 0o755)))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tree := filepath.Join(dir, "tree")
	require.NoError(t, LinkTree(b, tree))
	if real.Path == b.Path {
		err = os.Symlink(b.Path, filepath.Join(tree, "bin", filepath.Base(b.Path)))
	} else { // containers do not see where it is
		err = os.Link(real.Path, filepath.Join(tree, "bin", "real"))
	}
	require.NoError(t, err)
	require.NoError(t, WriteProgram(filepath.Join(tree, "bin", name), []byte("#!/bin/sh\n"+script)))
	b.BaseDir = tree
	return b
}

// WriteProgram writes a program or script that can be executed at once: a child that another test forks meanwhile would
// still have it open for writing.
func WriteProgram(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, program, 0o755)
}

// LinkTree makes a directory from which another program than b.Path can use all else of b's installation.
func LinkTree(b mysqld.Binary, dir string) error {
	for _, sub := range []string{dir, filepath.Join(dir, "bin"), filepath.Join(dir, "sbin")} {
		if err := os.Mkdir(sub, 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"lib", "share"} {
		if err := os.Symlink(filepath.Join(b.BaseDir, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	// There, Debian's mariadb-install-db looks for the server.
	name := filepath.Base(b.Path)
	if err := os.Symlink(filepath.Join("..", "bin", name), filepath.Join(dir, "sbin", name)); err != nil {
		return err
	}
	tools, err := filepath.Glob(filepath.Join(b.BaseDir, "bin", "m*"))
	if err != nil {
		return err
	}
	for _, tool := range append(tools, filepath.Join(b.BaseDir, "bin", "resolveip")) {
		if name := filepath.Base(tool); name != filepath.Base(b.Path) {
			if err := os.Symlink(tool, filepath.Join(dir, "bin", name)); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	return nil
}
