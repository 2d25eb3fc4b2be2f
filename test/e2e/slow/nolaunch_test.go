package slow

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// launchAttempts is how long a launch that fails at once is tried: six times, with pauses of 1 to 16 s and a quarter
// more.
const launchAttempts = 45 * time.Second

// A dedicated server that never comes up ends the creation as failed, with a sentence for users and the cause for
// operators, and leaves nothing behind.
func TestServerNeverComesUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		misfit  testdrive.Misfit
		timeout string // for the server to come up
		cause   string
	}{
		{"exits", testdrive.Exits, "1m", "this server will not start"},
		{"hangs", testdrive.Hangs, "1s", "did not come up in time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expectNoServer(t, servers.Any(t), c.misfit, c.timeout, c.cause)
		})
	}
}

func expectNoServer(t *testing.T, s servers.MySQL, misfit testdrive.Misfit, timeout, cause string) {
	env := testdrive.Environment(t, s)
	env["LAUNCHER_MYSQLD"] = testdrive.BrokenInstallation(t, s.Flavour, misfit)
	env["LAUNCHER_TIMEOUT"] = timeout
	p, tasks := testdrive.StartPlatform(t, s, env), testdrive.OpenTasks(t, env)
	i := p.OwnInstance(t, "dedicated-small")
	operation := i.BeginProvision(t)
	tasks.AwaitFailure(t, i.ID, launchAttempts+time.Minute, cause)
	last := i.Poll(t, "?operation="+operation).Expect(t, http.StatusOK)
	for _, words := range []string{"Launching the server failed", "Delete the service instance", operation} {
		if !strings.Contains(last.String("description"), words) {
			t.Errorf("users do not read %q but %q", words, last.String("description"))
		}
	}
	testdrive.CheckNothingLeft(t, env["LAUNCHER_DIR"])
	i.Remove(t)
	i.Deprovision(t, testdrive.Async).Expect(t, http.StatusGone)
}
