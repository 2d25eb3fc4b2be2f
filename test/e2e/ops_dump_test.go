package e2e

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Programs of a flavour, by what the client looks for.
var clientPrograms = map[string][]string{"mysql": {"mysqldump", "mysql"}, "mariadb": {"mariadb-dump", "mariadb"}}

// pathWith is a PATH with a flavour's client programs alone.
func pathWith(t *testing.T, flavour string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range clientPrograms[flavour] {
		if err := os.Symlink(testdrive.ClientProgram(t, flavour, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// clientFlavours are those whose client programs are there.
func clientFlavours(t *testing.T) (all []string) {
	t.Helper()
	for _, s := range servers.AllMySQL(t) {
		if !slices.Contains(all, s.Flavour) {
			all = append(all, s.Flavour)
		}
	}
	return all
}

// fits reports whether a flavour's programs work on a server: MySQL's cannot log in to MariaDB.
func fits(programs string, s servers.MySQL) bool {
	return programs == "mariadb" || s.Flavour == "mysql"
}

// terminal has more of what persons do with client commands.
type terminal struct{ testdrive.Terminal }

// atTerminal is a person with the programs of a flavour.
func atTerminal(t *testing.T, p testdrive.Platform, programs string) terminal {
	t.Helper()
	u := terminal{p.Terminal(t)}
	u.Env["PATH"] = pathWith(t, programs)
	return u
}

func (u terminal) makeKey(t *testing.T, args ...string) testdrive.Credentials {
	t.Helper()
	var binding struct{ Credentials testdrive.Credentials }
	u.Read(t, &binding, append([]string{"create-service-key"}, args...)...)
	return binding.Credentials
}

// keys are the names of an instance's keys.
func (u terminal) keys(t *testing.T, name string) (names []string) {
	t.Helper()
	var shown struct{ Keys map[string]any }
	u.Read(t, &shown, "service", name)
	for key := range shown.Keys {
		names = append(names, key)
	}
	return names
}

// trickyRow looks like what the dump programs write of definers, and holds what has to be escaped.
const trickyRow = "/*!50013 DEFINER=`a`@`%` SQL SECURITY DEFINER */\nCREATE DEFINER=`a`@`%` 'x' \\ \x00\xff DELIMITER ;;"

// furnish creates every kind of object that a dump can contain.
func furnish(t *testing.T, c testdrive.Credentials) {
	t.Helper()
	testdrive.UseAsApplication(t, c)
	db := c.Open(t)
	testdrive.Exec(t, db, "CREATE FUNCTION unit() RETURNS INT DETERMINISTIC\nBEGIN\n  -- CREATE DEFINER=`a`@`%`\n  RETURN 1;\nEND",
		"CREATE TABLE tricky (id INT PRIMARY KEY, content LONGBLOB, name VARCHAR(20) COMMENT 'a\nb;;')")
	if _, err := db.ExecContext(t.Context(), "INSERT INTO tricky VALUES (1, ?, 'ü€😀'), (2, ?, '')", trickyRow,
		strings.Repeat(trickyRow, 4000)); err != nil {
		t.Fatal(err)
	}
}

func expectFurnished(t *testing.T, db *sql.DB) {
	t.Helper()
	testdrive.Exec(t, db, "CALL add_fruit('apple pie')")
	if got := testdrive.Read[string](t, db, "SELECT GROUP_CONCAT(noted ORDER BY id) FROM apples"); got !=
		"APPLE,APPLE TART,APPLE PIE" {
		t.Errorf("the restored view shows %q", got)
	}
	if got := testdrive.Read[int](t, db, "SELECT unit()"); got != 1 {
		t.Errorf("the restored function returns %d", got)
	}
	for id, want := range map[int]string{1: trickyRow, 2: strings.Repeat(trickyRow, 4000)} {
		if got := testdrive.Read[string](t, db, "SELECT content FROM tricky WHERE id = ?", id); got != want {
			t.Errorf("row %d has %d bytes instead of %d", id, len(got), len(want))
		}
	}
	if got := testdrive.Read[string](t, db, "SELECT name FROM tricky WHERE id = 1"); got != "ü€😀" {
		t.Errorf("the restored name is %q", got)
	}
}

// testDumps dumps with the programs of both flavours from servers of both, and restores with them.
func testDumps(t *testing.T, p testdrive.Platform) {
	for _, programs := range clientFlavours(t) {
		t.Run("programs of "+programs, func(t *testing.T) {
			t.Parallel()
			if fits(programs, p.Server) {
				testClientDump(t, p, programs)
				return
			}
			u := atTerminal(t, p, programs)
			u.Run(t, "create-service", "shared-small", "from")
			if said := u.Fail(t, "dump", "from"); !strings.Contains(said, "install the package mariadb-client") {
				t.Errorf("without a program that fits: %s", said)
			}
			if left := u.keys(t, "from"); len(left) > 0 {
				t.Errorf("keys are left: %q", left)
			}
		})
	}
}

func testClientDump(t *testing.T, p testdrive.Platform, programs string) {
	u, dir := atTerminal(t, p, programs), t.TempDir()
	file := filepath.Join(dir, "dump.sql")
	u.Run(t, "create-service", "shared-small", "from")
	u.Run(t, "create-service", "shared-small", "to")
	furnish(t, u.makeKey(t, "from", "app"))

	u.Expect(t, "Dumped service instance from into "+file, "dump", "from", file, "--key", "app")
	dump := readDump(t, file)
	for _, line := range bytes.Split(dump, []byte("\n")) {
		if bytes.Contains(line, []byte("DEFINER=")) && !bytes.Contains(line, []byte("DEFINER=`a`@`%`")) {
			t.Errorf("a definer is left: %s", line)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the dump's mode: %v, %v", info.Mode(), err)
	}
	u.Expect(t, "Restored service instance to", "restore", "to", file)
	target := u.makeKey(t, "to", "check")
	expectFurnished(t, target.Open(t))

	// Of MySQL's generated columns, MariaDB's program writes values, which MySQL refuses.
	testdrive.Exec(t, target.Open(t), "CREATE TABLE computed (a INT, b INT AS (a + 1) STORED)",
		"INSERT INTO computed (a) VALUES (1)")
	generated := filepath.Join(t.TempDir(), "generated.sql")
	if args := []string{"dump", "to", generated, "--no-programs"}; programs != p.Server.Flavour {
		if said := u.Fail(t, args...); !strings.Contains(said, "generated columns, which are: computed") {
			t.Errorf("generated columns: %s", said)
		}
	} else {
		u.Run(t, args...)
		testdrive.Exec(t, target.Open(t), "DROP TABLE computed")
		u.Run(t, "restore", "to", generated)
		if got := testdrive.Read[int](t, target.Open(t), "SELECT b FROM computed"); got != 2 {
			t.Errorf("the generated column is %d", got)
		}
	}

	// On a shared server, a key cannot read the routines of another, and says so instead of leaving them out.
	if said := u.Fail(t, "dump", "from", filepath.Join(dir, "other.sql")); !strings.Contains(said,
		"cannot read what another one made: function unit, procedure add_fruit") || !strings.Contains(said, "--key") {
		t.Errorf("routines of another key: %s", said)
	}
	u.makeKey(t, "from", "reader", "-c", `{"role":"read-only"}`)
	if said := u.Fail(t, "dump", "from", "--key", "reader"); !strings.Contains(said, "cannot read triggers") {
		t.Errorf("with a key that is read-only: %s", said)
	}
	tables := u.Run(t, "dump", "from", "--no-programs")
	for _, never := range []string{"TRIGGER", "PROCEDURE", "FUNCTION"} {
		if strings.Contains(tables, never+" `") {
			t.Errorf("without programs there is a %s", never)
		}
	}
	for _, broken := range []struct{ name, content, want string }{
		{"half.sql", string(dump[:len(dump)/2]), "breaks off"},
		{"dump.sql.gz", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", "compressed"},
	} {
		path := filepath.Join(t.TempDir(), broken.name)
		if err := os.WriteFile(path, []byte(broken.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if said := u.Fail(t, "restore", "to", path); !strings.Contains(said, broken.want) {
			t.Errorf("restore of %s: %s", broken.name, said)
		}
	}
	expectEntries(t, dir, "dump.sql")
	if got := u.keys(t, "to"); !slices.Equal(got, []string{"check"}) {
		t.Errorf("keys are left: %q", got)
	}

	// A client's own command in what is restored is not carried out.
	canary := filepath.Join(dir, "canary")
	hostile := filepath.Join(t.TempDir(), "hostile.sql")
	if err := os.WriteFile(hostile, []byte("SELECT 1;\n\\! touch "+canary+"\nsystem touch "+canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := u.Fail(t, "restore", "to", hostile); !strings.Contains(said, "Unknown command") {
		t.Errorf("restore of commands: %s", said)
	}
	expectEntries(t, dir, "dump.sql")
}

func readDump(t *testing.T, file string) []byte {
	t.Helper()
	dump, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return dump
}

// expectEntries fails the test unless a directory has these entries.
func expectEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("the directory has %q instead of %q", names, want)
	}
}

// On a MySQL server of its own, or a MariaDB server from 11.3 on, a key of role admin reads the routines of all others,
// so that a dump needs none of them.
func testDumpOfADedicatedServer(t *testing.T, p testdrive.Platform) {
	u := atTerminal(t, p, p.Server.Flavour)
	u.Run(t, "create-service", "dedicated-small", "from")
	app := u.makeKey(t, "from", "app")
	furnish(t, app)
	testdrive.Exec(t, app.Open(t), "CREATE EVENT later ON SCHEDULE AT NOW() + INTERVAL 1 DAY DO DELETE FROM fruit")
	file := filepath.Join(t.TempDir(), "dump.sql")
	if version := testdrive.Read[string](t, app.Open(t), "SELECT VERSION()"); p.Server.Flavour == "mariadb" && !strings.HasPrefix(version,
		"11.4.") && !strings.HasPrefix(version, "11.8.") {
		if said := u.Fail(t, "dump", "from", file); !strings.Contains(said, "cannot read what another one made") {
			t.Errorf("on %s: %s", version, said)
		}
		u.Run(t, "dump", "from", file, "--key", "app")
	} else {
		u.Run(t, "dump", "from", file)
	}
	if dump := readDump(t, file); !bytes.Contains(dump, []byte("EVENT `later`")) {
		t.Error("the dump has no event")
	}
	u.Run(t, "restore", "from", file)
	u.Run(t, "restore", "from", file) // replaces what it made
	expectFurnished(t, app.Open(t))
	if got := u.keys(t, "from"); !slices.Equal(got, []string{"app"}) {
		t.Errorf("keys are left: %q", got)
	}
	u.Run(t, "delete-service", "from")
}

// An interrupted dump leaves no file, no process and no key, and the password is visible to nobody.
func testDumpInterrupted(t *testing.T, p testdrive.Platform) {
	u, dir := atTerminal(t, p, p.Server.Flavour), t.TempDir()
	u.Run(t, "create-service", "shared-small", "from")
	c := u.makeKey(t, "from", "app")
	testdrive.Exec(t, c.Open(t), "CREATE TABLE held (id INT)")
	conn, err := c.Open(t).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "LOCK TABLES held WRITE"); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	u.Env["TMPDIR"] = t.TempDir()
	cmd := testdrive.Command(t, u.Env, "client", "dump", "from", filepath.Join(dir, "dump.sql"), "--key", "app")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	child, root := 0, p.Admin(t)
	testdrive.Eventually(t, testdrive.QuotaTime, "the dump waits for the table", func() bool {
		child = childOf(cmd.Process.Pid)
		return child != 0 && testdrive.Read[int](t, root, `SELECT COUNT(*) FROM information_schema.processlist
			WHERE user = ? AND state LIKE 'Waiting for table metadata lock%'`, c.Username) > 0
	})
	for _, of := range []string{"cmdline", "environ"} {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", child, of))
		if err != nil || bytes.Contains(content, []byte(c.Password)) {
			t.Errorf("%s of the program has the password, or cannot be read: %v", of, err)
		}
	}
	expectEntries(t, u.Env["TMPDIR"])
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := testdrive.Receive(t, ended, "the end of the client"); err == nil || !strings.Contains(said.String(),
		"interrupted") {
		t.Errorf("the interrupted client: %v: %s", err, &said)
	}
	expectEntries(t, dir)
	expectEntries(t, u.Env["TMPDIR"])
	if err := syscall.Kill(child, 0); err == nil {
		t.Error("the program goes on")
	}
}

// childOf finds a process that another one started, or 0.
func childOf(pid int) int {
	out, err := osexec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0
	}
	child, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	return child
}

// A dump that fails leaves no key and no file, and does not change an existing dump.
func TestClientDumpThatFails(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	p := testdrive.StartPlatform(t, s, bindLimitEnvironment(t, s))
	u, dir := atTerminal(t, p, s.Flavour), t.TempDir()
	file := filepath.Join(dir, "dump.sql")
	u.Run(t, "create-service", "shared-small", "from")
	testdrive.Exec(t, u.makeKey(t, "from", "one").Open(t), "CREATE TABLE t (id INT)")
	u.Run(t, "dump", "from", file)
	before := readDump(t, file)

	broken := t.TempDir()
	script := "#!/bin/sh\n[ \"$1\" = --version ] && { echo " + map[string]string{"mysql": "Ver 9", "mariadb": "MariaDB"}[s.Flavour] +
		"; exit; }\necho '-- half a dump'\n"
	for _, name := range clientPrograms[s.Flavour] {
		if err := os.WriteFile(filepath.Join(broken, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	good := u.Env["PATH"]
	u.Env["PATH"] = broken + ":/usr/bin:/bin"
	if said := u.Fail(t, "dump", "from", file); !strings.Contains(said, "without completing the dump") {
		t.Errorf("a program that ends early: %s", said)
	}
	u.Env["PATH"] = good
	if said := u.Fail(t, "dump", "from", filepath.Join(dir, "no", "dump.sql")); !strings.Contains(said, "cannot be written") {
		t.Errorf("a directory that is not there: %s", said)
	}
	if said := u.Fail(t, "dump", "from", dir); !strings.Contains(said, "is no file") {
		t.Errorf("a directory: %s", said)
	}
	if !bytes.Equal(readDump(t, file), before) {
		t.Error("the earlier dump has changed")
	}
	expectEntries(t, dir, "dump.sql")
	if got := u.keys(t, "from"); !slices.Equal(got, []string{"one"}) {
		t.Errorf("keys are left: %q", got)
	}

	u.makeKey(t, "from", "two")
	u.makeKey(t, "from", "three")
	if said := u.Fail(t, "dump", "from", file); !strings.Contains(said, "allows 3") || !strings.Contains(said, "--key") {
		t.Errorf("without a place for another key: %s", said)
	}
	u.Run(t, "dump", "from", file, "--key", "two")
}
