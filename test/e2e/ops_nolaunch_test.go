package e2e

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
	p, tasks := startPlatform(t, s, env), openTasks(t, env)
	i := p.ownInstance(t, "dedicated-small")
	operation := i.begin(t)
	tasks.awaitFailure(t, i.id, launchAttempts+time.Minute, cause)
	last := i.poll(t, "?operation="+operation).Expect(t, http.StatusOK)
	for _, words := range []string{"Launching the server failed", "Delete the service instance", operation} {
		if !strings.Contains(last.String("description"), words) {
			t.Errorf("users do not read %q but %q", words, last.String("description"))
		}
	}
	checkNothingLeft(t, env["LAUNCHER_DIR"])
	i.remove(t)
	i.deprovision(t, later).Expect(t, http.StatusGone)
}

// awaitFailure waits until the newest task of an instance has failed, and fails the test unless operators find the
// cause in the task.
func (ts tasks) awaitFailure(t *testing.T, instanceID string, limit time.Duration, cause string) {
	t.Helper()
	testdrive.Eventually(t, limit, "the task fails", func() bool {
		_, state := ts.latest(t, instanceID, "")
		if state == "succeeded" {
			t.Fatal("the task succeeded")
		}
		return state == "failed"
	})
	var recorded string
	if err := ts.pool.QueryRow(t.Context(), `SELECT last_error FROM task WHERE instance_id = $1
		ORDER BY id DESC LIMIT 1`, instanceID).Scan(&recorded); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(recorded, cause) {
		t.Errorf("operators do not read %q but %q", cause, recorded)
	}
}
