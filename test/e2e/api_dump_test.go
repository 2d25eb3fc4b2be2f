package e2e

import (
	"bytes"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

var dumpScenarios = []scenario{
	{"dump and restore", testDumpAndRestore},
}

// A dump with everything that one can hold is made with a read-write account, and restored into another instance with
// another.
func testDumpAndRestore(t *testing.T, p platform) {
	_, from := p.provisioned(t, "shared-small", nil).bound(t, nil)
	useAsApplication(t, from)
	exec(t, from.open(t), "CREATE EVENT later ON SCHEDULE AT NOW() + INTERVAL 1 DAY DO DELETE FROM fruit",
		"CREATE FUNCTION unit() RETURNS INT DETERMINISTIC RETURN 1")
	_, to := p.provisioned(t, "shared-small", nil).bound(t, nil)
	dump := runClient(t, "dump", from, nil, "--single-transaction", "--no-tablespaces", "--routines", "--events")
	locking := runClient(t, "dump", from, nil, "--lock-tables", "--no-tablespaces", "--no-data")
	if !bytes.Contains(locking, []byte("fruit")) {
		t.Errorf("a dump that locks tables has no table: %s", locking)
	}
	// Who restores becomes the definer: to name another takes a privilege over all databases.
	runClient(t, "", to, definer.ReplaceAll(dump, nil))
	db := to.open(t)
	exec(t, db, "CALL add_fruit('apple pie')")
	if got := read[string](t, db, "SELECT GROUP_CONCAT(noted ORDER BY id) FROM apples"); got !=
		"APPLE,APPLE TART,APPLE PIE" {
		t.Errorf("the restored view shows %q", got)
	}
	if got := read[int](t, db, `SELECT unit() + COUNT(*) FROM information_schema.events
		WHERE event_schema = DATABASE()`); got != 2 {
		t.Errorf("the restored function and event make %d", got)
	}
}

var definer = regexp.MustCompile("DEFINER=`[^`]*`@`[^`]*`")

// programs are what the clients are called, in the order of preference.
var programs = map[string][]string{"": {"mariadb", "mysql"}, "dump": {"mariadb-dump", "mysqldump"}}

// runClient runs a command line client on an account's database, over TLS that is verified, and returns its output.
func runClient(t *testing.T, kind string, c credentials, input []byte, options ...string) []byte {
	t.Helper()
	program, err := osexec.LookPath(programs[kind][0])
	if err != nil {
		if program, err = osexec.LookPath(programs[kind][1]); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	ca, login := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "login.cnf")
	settings := fmt.Sprintf("[client]\nhost=%s\nport=%d\nuser=%s\npassword=%s\nssl-ca=%s\n", c.Host, c.Port, c.Username,
		c.Password, ca)
	for path, content := range map[string]string{ca: c.CACertificate, login: settings} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := osexec.CommandContext(t.Context(), program,
		append(append([]string{"--defaults-file=" + login}, options...), c.Database)...)
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", program, err, &stderr)
	}
	return output
}
