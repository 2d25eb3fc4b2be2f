package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const unit = "deploy/systemd/mysql-broker.service"

func TestUnitIsUnderstood(t *testing.T) {
	t.Parallel()
	const program = "/usr/local/bin/mysql-broker"
	text := readFile(t, unit)
	require.True(t, strings.Contains(text, "ExecStart="+program+" serve\n"), "%s does not start %s", unit, program)
	installed := filepath.Join(t.TempDir(), filepath.Base(unit))
	text = strings.ReplaceAll(text, program, "/bin/true") // it has to be there
	const newer = "\nDelegateSubgroup=broker\n"
	assert.True(t, strings.Contains(text, newer), "%s has no line %q", unit, newer)
	if systemdVersion(t) < 254 { // which complains of it
		text = strings.Replace(text, newer, "\n", 1)
	}
	require.NoError(t, os.WriteFile(installed, []byte(text), 0o600))
	// What is wrong with the units that it depends on is this machine's.
	expectSilence(t, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", installed)
}

func systemdVersion(t *testing.T) (version int) {
	out, err := exec.Command("systemd-analyze", "--version").Output()
	if err == nil {
		_, err = fmt.Sscanf(string(out), "systemd %d", &version)
	}
	require.NoError(t, err)
	return version
}

// expectSilence runs a command that has something to say only if something is wrong.
func expectSilence(t *testing.T, name string, args ...string) {
	cmd := exec.Command(name, args...)
	cmd.Dir = path("")
	out, err := cmd.CombinedOutput()
	assert.True(t, err == nil && len(out) == 0, "%s: %v\n%s", cmd, err, out)
}

// systemd rates how much a service may do from 0 to 10. What remains are the network, other users' files, and /proc,
// where the launcher finds its servers.
func TestUnitIsConfined(t *testing.T) {
	t.Parallel()
	const most = "18" // tenths
	out, err := exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold="+most, path(unit)).CombinedOutput()
	assert.NoError(t, err, "%v\n%s", err, out)
	assert.True(t, strings.Contains(string(out), "Overall exposure level for mysql-broker.service"),
		"nothing was rated:\n%s", out)
}

func TestUnitsUserCanBeMade(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("systemd-sysusers", "--dry-run", "--root="+t.TempDir(),
		path("deploy/systemd/sysusers.conf")).CombinedOutput()
	assert.True(t, err == nil && strings.Contains(string(out), "mysql-broker"), "%v\n%s", err, out)
}
