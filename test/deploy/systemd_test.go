package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const unit = "deploy/systemd/mysql-broker.service"

func TestUnitIsUnderstood(t *testing.T) {
	t.Parallel()
	const program = "/usr/local/bin/mysql-broker"
	text := readFile(t, unit)
	if !strings.Contains(text, "ExecStart="+program+" serve\n") {
		t.Fatalf("%s does not start %s", unit, program)
	}
	installed := filepath.Join(t.TempDir(), filepath.Base(unit))
	text = strings.ReplaceAll(text, program, "/bin/true") // it has to be there
	const newer = "\nDelegateSubgroup=broker\n"
	if !strings.Contains(text, newer) {
		t.Errorf("%s has no line %q", unit, newer)
	}
	if systemdVersion(t) < 254 { // which complains of it
		text = strings.Replace(text, newer, "\n", 1)
	}
	if err := os.WriteFile(installed, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// What is wrong with the units that it depends on is this machine's.
	expectSilence(t, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", installed)
}

func systemdVersion(t *testing.T) (version int) {
	t.Helper()
	out, err := exec.Command("systemd-analyze", "--version").Output()
	if err == nil {
		_, err = fmt.Sscanf(string(out), "systemd %d", &version)
	}
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// expectSilence runs a command that has something to say only if something is wrong.
func expectSilence(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = path("")
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
}

// systemd rates how much a service may do from 0 to 10. What remains are the network, other users' files, and /proc,
// where the launcher finds its servers.
func TestUnitIsConfined(t *testing.T) {
	t.Parallel()
	const most = "18" // tenths
	out, err := exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold="+most, path(unit)).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "Overall exposure level for mysql-broker.service") {
		t.Errorf("nothing was rated:\n%s", out)
	}
}

func TestUnitsUserCanBeMade(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("systemd-sysusers", "--dry-run", "--root="+t.TempDir(),
		path("deploy/systemd/sysusers.conf")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "mysql-broker") {
		t.Errorf("%v\n%s", err, out)
	}
}
