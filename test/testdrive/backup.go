package testdrive

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// DumpPostgres backs a database up as docs/upgrade.md has operators do it, and returns the backup's path.
func DumpPostgres(t testing.TB, database string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup")
	runPostgres(t, database, "pg_dump", "--format=custom", "--file="+path)
	return path
}

// RestorePostgres puts a backup in the place of what is in a database.
func RestorePostgres(t testing.TB, database, backup string) {
	t.Helper()
	runPostgres(t, database, "pg_restore", "--clean", "--if-exists", "--single-transaction", backup)
}

// runPostgres runs one of PostgreSQL's programs, of the newest version where Debian has several, on the database of that
// URL. The password is not in the arguments, because other tests look for it in those of all processes.
func runPostgres(t testing.TB, database, program string, args ...string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal("the database's URL is not one") // err would show the password
	}
	password, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err != nil {
		t.Fatal(err)
	}
	path := program
	if len(found) > 0 {
		path = slices.Max(found)
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"--dbname=" + u.String()}, args...)...)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+password)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}
