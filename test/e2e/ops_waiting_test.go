package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// restoreBefore makes PostgreSQL record what a backup holds that was taken while an instance was being provisioned.
func (ts tasks) restoreBefore(t *testing.T, i instance) (task string) {
	t.Helper()
	if _, err := ts.pool.Exec(t.Context(), "UPDATE instance SET state = 'creating' WHERE id = $1", i.id); err != nil {
		t.Fatal(err)
	}
	err := ts.pool.QueryRow(t.Context(), `UPDATE task SET state = 'in progress', finished_at = NULL, step = '',
		attempt = 0, run_at = now(), last_error = '' WHERE instance_id = $1 AND kind = 'provision'
		RETURNING 'task_' || id`, i.id).Scan(&task)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// TestProvisionWaitsForItsServer has a server refuse connections for longer than six attempts take, as after a disaster,
// while the provision of a database that holds data is in progress in the PostgreSQL that was restored. The provision
// waits and uses up no attempts, and the data stay.
func TestProvisionWaitsForItsServer(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		server := testdrive.StartCrashable(t, s.Flavour)
		env := testdrive.Environment(t, server.MySQL)
		p := startPlatform(t, server.MySQL, env)
		o, tasks := p.operator(env), openTasks(t, env)
		i := p.makeOwn(t, "shared-async")
		b, c := i.bound(t, nil)
		exec(t, c.open(t), "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (42)")

		let := server.Crash(t)
		began, _ := tasks.latest(t, i.id, "")
		task := tasks.restoreBefore(t, i)
		const more = 8 // than the attempts of a step that fails, and some for a broker that looks at the task late
		testdrive.Eventually(t, 4*time.Minute, "the server is tried often", func() bool {
			epoch, state := tasks.latest(t, i.id, "")
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
		o.read(t, &shown, "tasks", task)
		if shown.Phase != "forward" || shown.Attempts != 0 || !strings.Contains(shown.LastError, "waits for its server") {
			t.Errorf("while it waits, the task is shown as %+v", shown)
		}
		poll := i.poll(t, "?operation="+task).Expect(t, http.StatusOK)
		if poll.String("state") != "in progress" || !strings.Contains(poll.String("description"), "does not answer") {
			t.Errorf("while it waits, a poll is answered %s", poll.Raw)
		}
		if n := strings.Count(p.Log(), "a task waits for its server"); n != 1 {
			t.Errorf("%d lines of the log say that the task waits", n)
		}
		let()
		tasks.awaitSuccess(t, i.id, "")
		var n int
		if err := b.credentials(t, b.fetch(t).Expect(t, http.StatusOK)).open(t).
			QueryRowContext(t.Context(), "SELECT n FROM kept").Scan(&n); err != nil || n != 42 {
			t.Errorf("the table holds %d, %v", n, err)
		}
		i.remove(t)
	})
}

// TestWaitingEnds gives a plan little time: an operation whose server stays away fails within it, with a sentence, and
// the deletion of what may be left works once the server is back.
func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	server := testdrive.StartCrashable(t, servers.Any(t).Flavour)
	env := testdrive.Environment(t, server.MySQL)
	env["CATALOG"] = catalogWithPolling(t, "shared-async", 20)
	p := startPlatform(t, server.MySQL, env)
	tasks := openTasks(t, env)
	i := p.makeOwn(t, "shared-async")
	let := server.Crash(t)
	task := tasks.restoreBefore(t, i)
	if state, description := i.AwaitOperation(t, i.id, task); state != "failed" ||
		!slices.Contains(description, "The MySQL server did not answer. Delete the service instance and create it "+
			"again. If it fails again, tell your operator about "+task+".") {
		t.Errorf("the provision %s: %q", state, description)
	}
	o := p.operator(env)
	var shown struct {
		LastError string `json:"last_error"`
	}
	o.read(t, &shown, "tasks", task)
	if !strings.Contains(shown.LastError, "undoing it: ") {
		t.Errorf("operators read %q", shown.LastError)
	}
	let()
	i.remove(t)
	expectTenants(t, p.admin(t), 0, 0)
}
