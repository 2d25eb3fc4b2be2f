package backups

import (
	"fmt"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// removalOf is what runs when the daily task that removes old tasks is due.
const removalOf = "remove-old-tasks"

// What is due runs by itself. Operators can list it, and run it again, but not cancel it.
func TestScheduledTask(t *testing.T) {
	t.Parallel()
	env := testdrive.Environment(t, servers.Any(t))
	env["KEEP_AUDIT_DAYS"] = "2"
	testdrive.Start(t, env)
	ts, o := testdrive.OpenTasks(t, env), testdrive.Operator{Env: env, Seen: &testdrive.Secrets{}}
	testdrive.Eventually(t, testdrive.TakeoverTime, "the first task is scheduled", func() (scheduled bool) {
		ts.Scan(t, &scheduled, "SELECT EXISTS (SELECT FROM schedule WHERE kind = 'remove-old-tasks' AND next_at > now())")
		return scheduled
	})
	if got := o.IDs(t, "task", "tasks", "--kind", removalOf); len(got) != 0 {
		t.Errorf("before the first is due: %q", got)
	}
	ts.Exec(t, `INSERT INTO task (instance_id, kind, plan_id, state, created_at, finished_at)
		SELECT 'i' || n, 'provision', 'p', 'succeeded', at, at
		FROM generate_series(1, 3) n, (SELECT now() - '31 days'::interval) past (at)`)
	ts.Exec(t, `INSERT INTO audit (at, action, result) SELECT now() - days * '1 day'::interval, 'drain', 'begun'
		FROM generate_series(1, 3) days`)
	ts.Exec(t, "UPDATE schedule SET next_at = now() WHERE kind = 'remove-old-tasks'")

	testdrive.Launch(t, env, "serve") // looks at the schedule when it starts
	testdrive.Eventually(t, testdrive.TakeoverTime, "old tasks are removed", func() (done bool) {
		ts.Scan(t, &done, "SELECT EXISTS (SELECT FROM task WHERE kind = 'remove-old-tasks' AND state = 'succeeded')")
		return done
	})
	removals := o.IDs(t, "task", "tasks", "--kind", removalOf)
	if len(removals) != 1 {
		t.Fatalf("scheduled tasks: %q", removals)
	}
	var left int
	ts.Scan(t, &left, "SELECT count(*) FROM task WHERE kind = 'provision'")
	if left != 0 {
		t.Errorf("%d old tasks are left", left)
	}
	ts.Scan(t, &left, "SELECT count(*) FROM audit WHERE action = 'drain'")
	if left != 1 {
		t.Errorf("%d entries of the audit are left, where those of the last two days are kept", left)
	}

	o.Refuse(t, "has succeeded already", "tasks", "cancel", removals[0])
	again := o.Run(t, 0, "tasks", "retry", removals[0]).Stdout
	testdrive.Eventually(t, testdrive.TakeoverTime, "the work is done again", func() bool {
		_, state := ts.Latest(t, "", "")
		return state == "succeeded"
	})
	if removals = o.IDs(t, "task", "tasks", "--kind", removalOf, "--state", "succeeded"); len(removals) != 2 {
		t.Errorf("after %q: %q", again, removals)
	}
	ts.Exec(t, fmt.Sprintf(`INSERT INTO task (instance_id, kind, plan_id, run_at) VALUES ('', '%s', '', now() + '1 min')`,
		removalOf))
	o.Refuse(t, "cannot be undone", "tasks", "cancel", o.IDs(t, "task", "tasks", "--state", "in-progress")[0])
}
