package tenants

import (
	"bytes"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"

	"mysql-broker/test/testdrive"
)

// clientPrograms are the command line clients of each flavour: the one that dumps, and the one that runs statements.
var clientPrograms = map[string][]string{"mysql": {"mysqldump", "mysql"}, "mariadb": {"mariadb-dump", "mariadb"}}

// serverFree are the options by which MySQL's mysqldump asks the server for nothing that takes privileges beyond a
// database. MySQL 9.7 brought masking policies.
var serverFree = map[string][]string{"mysql": {"--set-gtid-purged=OFF", "--loose-skip-masking-policies"}}

// runClient runs a command line client of a flavour, the nth of clientPrograms, on an account's database, over TLS that
// is verified, and returns its output.
func runClient(t *testing.T, flavour string, n int, c testdrive.Credentials, input []byte, options ...string) []byte {
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
		t.Fatalf("%s: %v: %s", program, err, &stderr)
	}
	return output
}
