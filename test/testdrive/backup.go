package testdrive

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// DumpPostgres backs a database up as docs/upgrade.md has operators do it, and returns the backup's path.
func DumpPostgres(t testing.TB, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup")
	runPostgres(t, "pg_dump", "--format=custom", "--file="+path, url)
	return path
}

// RestorePostgres puts a backup in the place of what is in a database.
func RestorePostgres(t testing.TB, url, backup string) {
	t.Helper()
	runPostgres(t, "pg_restore", "--clean", "--if-exists", "--single-transaction", "--dbname="+url, backup)
}

// runPostgres runs one of PostgreSQL's programs, of the newest version where Debian has several.
func runPostgres(t testing.TB, program string, args ...string) {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err != nil {
		t.Fatal(err)
	}
	path := program
	if len(found) > 0 {
		path = slices.Max(found)
	}
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}
