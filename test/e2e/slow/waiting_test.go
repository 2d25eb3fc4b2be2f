package slow

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestProvisionWaitsForItsServer has a server refuse connections for longer than six attempts take, as after a disaster,
// while the provision of a database that holds data is in progress in the PostgreSQL that was restored. The provision
// waits and uses up no attempts, and the data stay.
func TestProvisionWaitsForItsServer(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		server := testdrive.StartCrashable(t, s.Flavour)
		env := testdrive.Environment(t, server.MySQL)
		p := testdrive.StartPlatform(t, server.MySQL, env)
		o, tasks := p.Operator(env), testdrive.OpenTasks(t, env)
		i := p.MakeOwn(t, "shared-async")
		b, c := i.Bound(t, nil)
		testdrive.Exec(t, c.Open(t), "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (42)")

		let := server.Crash(t)
		began, _ := tasks.Latest(t, i.ID, "")
		task := tasks.RestoreBefore(t, i)
		const more = 8 // than the attempts of a step that fails, and some for a broker that looks at the task late
		testdrive.Eventually(t, limits.Stuck, "the server is tried often", func() bool {
			epoch, state := tasks.Latest(t, i.ID, "")
			if state != "in progress" {
				t.Fatalf("the task %s", state)
			}
			return epoch > began+more
		})
		var shown struct {
			Attempts  int
			Phase     string
			LastError string `json:"last_error"`
		}
		o.Read(t, &shown, "tasks", task)
		if shown.Phase != "forward" || shown.Attempts != 0 || !strings.Contains(shown.LastError, "waits for its server") {
			t.Errorf("while it waits, the task is shown as %+v", shown)
		}
		poll := i.Poll(t, "?operation="+task).Expect(t, http.StatusOK)
		if poll.String("state") != "in progress" || !strings.Contains(poll.String("description"), "does not answer") {
			t.Errorf("while it waits, a poll is answered %s", poll.Raw)
		}
		if n := strings.Count(p.Log(), "a task waits for its server"); n != 1 {
			t.Errorf("%d lines of the log say that the task waits", n)
		}
		let()
		tasks.AwaitSuccess(t, i.ID, "")
		var n int
		if err := b.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK)).Open(t).
			QueryRowContext(t.Context(), "SELECT n FROM kept").Scan(&n); err != nil || n != 42 {
			t.Errorf("the table holds %d, %v", n, err)
		}
		i.Remove(t)
	})
}

// TestWaitingEnds gives a plan little time: an operation whose server stays away fails within it, with a sentence, and
// the deletion of what may be left works once the server is back.
func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	server := testdrive.StartCrashable(t, servers.Any(t).Flavour)
	env := testdrive.Environment(t, server.MySQL)
	env["CATALOG"] = catalogWithPolling(t, "shared-async", 20)
	p := testdrive.StartPlatform(t, server.MySQL, env)
	tasks := testdrive.OpenTasks(t, env)
	i := p.MakeOwn(t, "shared-async")
	let := server.Crash(t)
	task := tasks.RestoreBefore(t, i)
	if state, description := i.AwaitOperation(t, i.ID, task); state != "failed" ||
		!slices.Contains(description, "The MySQL server did not answer. Delete the service instance and create it "+
			"again. If it fails again, tell your operator about "+task+".") {
		t.Errorf("the provision %s: %q", state, description)
	}
	o := p.Operator(env)
	var shown struct {
		LastError string `json:"last_error"`
	}
	o.Read(t, &shown, "tasks", task)
	if !strings.Contains(shown.LastError, "undoing it: ") {
		t.Errorf("operators read %q", shown.LastError)
	}
	let()
	i.Remove(t)
	testdrive.ExpectTenants(t, p.Admin(t), 0, 0)
}

func catalogWithPolling(t *testing.T, plan string, seconds int) (path string) {
	t.Helper()
	return testdrive.EditedCatalog(t, testdrive.InPlan(plan, "\n", fmt.Sprintf("\n        maximum_polling_duration: %d\n", seconds)))
}
