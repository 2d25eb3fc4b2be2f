package operators

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Operators have tasks tried again: one that waits for its next attempt, and a deletion that failed. How a task is
// cancelled, package task tests, and what undoing is for each kind, package stage.
func TestFaultOperatorsOfTasks(t *testing.T) {
	t.Parallel()
	private, env := testdrive.PrivateEnvironment(t)
	faults := testdrive.NewFaults(t, env)
	d := testdrive.StartPlatform(t, private, env).Desk(t, env, faults)
	t.Run("what waits", func(t *testing.T) { retryWaiting(t, d) })
	t.Run("a deletion that failed", func(t *testing.T) { retryDeletion(t, d) })
	testdrive.ExpectTenants(t, d.AdminDB, 0, 0)
}

func retryWaiting(t *testing.T, d testdrive.Desk) {
	const point = "provision: create database: begins"
	i, g := d.OwnInstance(t, "shared-async"), testdrive.NewGate(t, point)
	d.Faults.Decide(func(_ int, at string) testdrive.Word {
		if g.Pass(at); at == point {
			return testdrive.Fail
		}
		return testdrive.GoOn
	})
	operation := i.BeginProvision(t)
	testdrive.Receive(t, g.Reached, "a worker makes the database")
	retry := func(says string) {
		assert.Equal(t, operation+says, d.Run(t, 0, "tasks", "retry", operation).Stdout, "retry")
	}
	retry(" is running.\n")
	g.Release()
	var due *time.Time // most of a minute ahead
	testdrive.Eventually(t, "the task waits", func() bool {
		d.Tasks.Scan(t, &due, `WITH waiting AS (UPDATE task SET run_at = now() + interval '55 s' WHERE instance_id = '`+i.ID+`'
			AND attempt > 0 AND lease_owner IS NULL RETURNING run_at) SELECT max(run_at) FROM waiting`)
		return due != nil
	})
	d.Faults.GoOn()
	testdrive.ExpectLine(t, d.Run(t, 0, "tasks", operation).Stdout, "next attempt:")
	testdrive.ExpectLine(t, d.Run(t, 0, "tasks", "--state", "in-progress").Stdout, operation, "waits after attempts that failed: ")
	retry(" is retried now.\n")
	i.Await(t, operation)
	var was time.Time
	d.Tasks.Scan(t, &was, "SELECT run_at FROM task WHERE 'task_' || id = '"+operation+"'")
	assert.True(t, was.Before(*due), "the task ran when it was due, and not when it was retried")
	d.Refuse(t, operation+" has succeeded", "tasks", "retry", operation)
	i.Remove(t)
}

func retryDeletion(t *testing.T, d testdrive.Desk) {
	i := d.MakeOwn(t, "shared-small")
	i.Bound(t, nil)
	enough := d.Failing("drop database")
	i.Deprovision(t, testdrive.Sync).Expect(t, http.StatusServiceUnavailable)
	enough()
	failed := d.Latest(t, i)
	got := d.IDs(t, "id", "instances", "--state", "delete-failed")
	assert.True(t, len(got) == 1 && got[0] == i.ID, "deletions that failed: %q", got)
	out := d.Run(t, 0, "tasks", "retry", failed).Stdout
	again := d.Latest(t, i)
	assert.True(t, again != failed && out == again+" retries "+failed+".\n", "after %s, %s: %q", failed, again, out)
	d.ExpectEnd(t, again, "succeeded")
	// What the platform read of the first one stays so.
	last := i.Poll(t, "?operation="+failed).Expect(t, http.StatusOK)
	assert.Equal(t, "failed", last.String("state"), "the first deletion is %s", last.Raw)
	d.Refuse(t, "what the task was to delete is gone", "tasks", "retry", failed)
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusGone)
	testdrive.ExpectTenants(t, d.AdminDB, 0, 0)
}

// While PostgreSQL is weeks ahead, nothing ends for its age: not what deleted instances have left, no backup, no
// account.
func TestFaultClockOfPostgres(t *testing.T) {
	p, env := testdrive.OnePlatform(t, "BACKUP_STORE", "file://"+t.TempDir(), "CATALOG", testdrive.EditedCatalog(t,
		testdrive.InPlan("shared-small", "max_bindings: 10,", "max_bindings: 10, keep_deleted_days: 7, backup_keep_days: 7,")))
	ts := testdrive.OpenTasks(t, env)
	deleted := p.OwnInstance(t, "shared-small")
	deleted.Create(t, nil, http.StatusCreated)
	for range 2 {
		deleted.AwaitOperation(t, deleted.ID, deleted.BackUp(t).Operation(t))
	}
	deleted.Delete(t)
	app := p.OwnInstance(t, "shared-small")
	app.Create(t, nil, http.StatusCreated)
	_, c := app.Bound(t, body{"parameters": body{"ttl": "8h"}})
	p.Kill(t)

	env["DATABASE_URL"] = servers.PostgresAhead(t, env["DATABASE_URL"], "20 days")
	b := testdrive.Start(t, env)
	for _, kind := range []string{"purge-retained", "purge-backups", "remove-old-tasks"} {
		ts.Exec(t, "INSERT INTO task (instance_id, kind, plan_id) VALUES ('', '"+kind+"', '') ON CONFLICT DO NOTHING")
		ts.Until(t, kind+" looks at the clock", "SELECT EXISTS (SELECT FROM task WHERE kind = '"+kind+
			"' AND last_error LIKE '%480h0m0s ahead of that of this host%')")
	}
	b.AwaitLog(t, "ending expired bindings failed")
	assert.Equal(t, "1", b.Scrape(t)["mysql_broker_clocks_disagree"], "mysql_broker_clocks_disagree")
	assert.Contains(t, testdrive.RunDoctor(t, env).Expect(t, 1).Stdout, "480h0m0s ahead", "doctor")
	testdrive.UseAsApplication(t, c)
	var retained, backups int
	ts.Scan(t, &retained, "SELECT count(*) FROM retained WHERE purged_since IS NULL")
	ts.Scan(t, &backups, "SELECT count(*) FROM backup WHERE state = 'complete'")
	assert.True(t, retained == 1 && backups == 2,
		"%d of 1 retained databases and %d of 2 backups are left", retained, backups)
}
