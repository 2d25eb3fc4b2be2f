package operators

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// While PostgreSQL is weeks ahead, nothing ends for its age: not what deleted instances have left, no backup, no
// account.
func TestFaultClockOfPostgres(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	env["BACKUP_STORE"] = "file://" + t.TempDir()
	env["CATALOG"] = testdrive.EditedCatalog(t, testdrive.InPlan("shared-small", "max_bindings: 10,",
		"max_bindings: 10, keep_deleted_days: 7, backup_keep_days: 7,"))
	p := testdrive.StartPlatform(t, s, env)
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
		testdrive.Eventually(t, limits.Stuck, kind+" looks at the clock", func() (refused bool) {
			ts.Scan(t, &refused, "SELECT EXISTS (SELECT FROM task WHERE kind = '"+kind+
				"' AND last_error LIKE '%480h0m0s ahead of that of this host%')")
			return refused
		})
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
