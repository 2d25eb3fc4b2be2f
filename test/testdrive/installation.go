package testdrive

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Misfit is the fault of every new server of an installation made by BrokenInstallation.
type Misfit string

const (
	Exits Misfit = `echo "[ERROR] this server will not start" >&2; exit 1`
	// Hangs is a server that waits for ever for its init file, a pipe into which nobody writes: it listens, and does
	// not answer.
	Hangs Misfit = `exec "$real" "$@" --init-file="$pipe"`
)

// BrokenInstallation returns the path of a mysqld like the installed one. Its installation can create data directories,
// but no new server starts. It is removed when the test ends.
func BrokenInstallation(t testing.TB, flavour string, misfit Misfit) string {
	t.Helper()
	real := binaryOf(t, flavour)
	root := launcherDir(t)
	inBin, err := filepath.Rel(real.BaseDir, real.Path) // such as bin/mysqld
	if err != nil {
		t.Fatal(err)
	}
	linkAllBut(t, real.BaseDir, root, filepath.Dir(inBin))
	bin := filepath.Join(root, filepath.Dir(inBin))
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	linkAllBut(t, filepath.Dir(real.Path), bin, filepath.Base(inBin))
	pipe := filepath.Join(root, "pipe")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	// Only a new server has an init file below instances/; its template's lies elsewhere.
	script := fmt.Sprintf(strings.TrimLeft(`
#!/bin/sh
real=%q
pipe=%q
case "$*" in *--init-file=*/instances/*) %s ;; esac
exec "$real" "$@"
`, "\n"), real.Path, pipe, misfit)
	path := filepath.Join(root, inBin)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// linkAllBut makes a link in to for every entry of from but one.
func linkAllBut(t testing.TB, from, to, except string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == except || e.Name() == "pipe" {
			continue
		}
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}
