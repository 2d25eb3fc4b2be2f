package e2e

import (
	"bytes"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mysql-broker/test/testdrive"
)

var dumpScenarios = []scenario{
	{"dump and restore", testDumpAndRestore},
}

// A dump with everything that one can hold is made with a read-write account, and restored into another instance with
// another, by the programs of each flavour.
func testDumpAndRestore(t *testing.T, p platform) {
	for _, programs := range clientFlavours(t) {
		t.Run("programs of "+programs, func(t *testing.T) {
			t.Parallel()
			testDumpAndRestoreBy(t, p, programs)
		})
	}
}

// serverFree are the options by which MySQL's mysqldump asks the server for nothing that takes privileges beyond a
// database. MySQL 9.7 brought masking policies.
var serverFree = map[string][]string{"mysql": {"--set-gtid-purged=OFF", "--loose-skip-masking-policies"}}

func testDumpAndRestoreBy(t *testing.T, p platform, programs string) {
	_, from := p.provisioned(t, "shared-small", nil).bound(t, nil)
	useAsApplication(t, from)
	exec(t, from.open(t), "CREATE FUNCTION unit() RETURNS INT DETERMINISTIC RETURN 1")
	if !fits(programs, p.server) {
		if _, err := tryClient(t, programs, 0, from, nil, "--no-tablespaces"); !strings.Contains(err.Error(),
			"mysql_native_password") {
			t.Errorf("MySQL's mysqldump on MariaDB: %v", err)
		}
		return
	}
	_, to := p.provisioned(t, "shared-small", nil).bound(t, nil)
	dump := runClient(t, programs, 0, from, nil, append(serverFree[programs], "--single-transaction", "--no-tablespaces",
		"--routines")...)
	locking := runClient(t, programs, 0, from, nil, append(serverFree[programs], "--lock-tables", "--no-tablespaces",
		"--no-data")...)
	if !bytes.Contains(locking, []byte("fruit")) {
		t.Errorf("a dump that locks tables has no table: %s", locking)
	}
	// Who restores becomes the definer: to name another takes a privilege over all databases.
	runClient(t, programs, 1, to, definer.ReplaceAll(dump, nil), "--binary-mode")
	db := to.open(t)
	exec(t, db, "CALL add_fruit('apple pie')")
	if got := read[string](t, db, "SELECT GROUP_CONCAT(noted ORDER BY id) FROM apples"); got !=
		"APPLE,APPLE TART,APPLE PIE" {
		t.Errorf("the restored view shows %q", got)
	}
	if got := read[int](t, db, "SELECT unit()"); got != 1 {
		t.Errorf("the restored function returns %d", got)
	}
}

var definer = regexp.MustCompile("DEFINER=`[^`]*`@`[^`]*`")

// runClient runs a command line client of a flavour, the nth of clientPrograms, on an account's database, over TLS that
// is verified, and returns its output.
func runClient(t *testing.T, flavour string, n int, c credentials, input []byte, options ...string) []byte {
	t.Helper()
	output, err := tryClient(t, flavour, n, c, input, options...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

func tryClient(t *testing.T, flavour string, n int, c credentials, input []byte, options ...string) ([]byte, error) {
	t.Helper()
	program := testdrive.ClientProgram(t, flavour, clientPrograms[flavour][n])
	dir := t.TempDir()
	ca, login := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "login.cnf")
	verify := map[string]string{"mysql": "ssl-mode=VERIFY_IDENTITY", "mariadb": "ssl-verify-server-cert"}[flavour]
	settings := fmt.Sprintf("[client]\nhost=%s\nport=%d\nuser=%s\npassword=%s\nssl-ca=%s\n%s\n", c.Host, c.Port,
		c.Username, c.Password, ca, verify)
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
		return nil, fmt.Errorf("%s: %w: %s", program, err, &stderr)
	}
	return output, nil
}
