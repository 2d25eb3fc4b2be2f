package backups

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestBackup backs up an instance to a real S3 service, changes its data, deletes it, and restores it.
func TestBackup(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		service := s3.Start(t)
		env := testdrive.Environment(t, s)
		service.Configure(env)
		p := testdrive.StartPlatform(t, s, env)
		source, c := testdrive.Cloneable(t, p, "shared-small")
		breakView(t, c)
		testdrive.ExpectError(t, source.Update(t, testdrive.Sync, body{"parameters": body{"backup": "now"}}), "AsyncRequired")
		source.Await(t, source.BackUp(t).Operation(t))
		assert.Len(t, testdrive.AccountsOf(t, p, c), 1, "the source has the accounts")
		objects := service.Objects(t)
		assert.True(t, len(objects) == 3 && strings.HasPrefix(objects[0], "mysql/"+source.ID+"/b_"),
			"the bucket has %q", objects)
		testdrive.Exec(t, c.Open(t), "DELETE FROM items", "DROP VIEW names")
		for _, plan := range []string{"shared-small", "dedicated-small"} {
			i := p.NewInstance(t, plan)
			testdrive.ExpectError(t, i.Provision(t, testdrive.Sync, body{"context": testdrive.CloudFoundry, "parameters": body{"restore_from": source.ID}}),
				"AsyncRequired")
			shown := i.Await(t, i.Restored(t, source.ID, nil).Operation(t))
			last := shown[len(shown)-1]
			assert.True(t, strings.HasPrefix(last, "Left out, ") && strings.HasSuffix(last, ": view broken."),
				"the restore of a broken view ends with %q", last)
			i.Restored(t, source.ID, nil).Expect(t, http.StatusOK)
			testdrive.ExpectClone(t, i)
		}
		source.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
		i := p.NewInstance(t, "shared-small")
		i.Await(t, i.Restored(t, source.ID, nil).Operation(t))
		testdrive.ExpectClone(t, i)

		for from, fields := range map[string]body{uuid.NewString(): nil, source.ID: {"space_guid": "another-space"}} {
			testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-small").Restored(t, from, fields), 400,
				"There is no backup "+from+" in this space.")
		}
	})
}

// breakView leaves a view of a table that is gone.
func breakView(t *testing.T, c testdrive.Credentials) {
	t.Helper()
	testdrive.Exec(t, c.Open(t), "CREATE TABLE passing (id INT)", "CREATE VIEW broken AS SELECT id FROM passing", "DROP TABLE passing")
}

// dailyBackups is a catalog in which instances of shared-small are backed up each day.
func dailyBackups(t *testing.T) (path string) {
	t.Helper()
	return testdrive.EditedCatalog(t, testdrive.InPlan("shared-small", "max_storage_mb: 100,",
		"max_storage_mb: 100, backup_every_hours: 24, backup_keep_days: 1,"))
}

// TestBackupsAreCaredFor takes backups by schedule, verifies them, finds a damaged one, deletes those whose days are over,
// and records them again in a PostgreSQL that has lost them.
func TestBackupsAreCaredFor(t *testing.T) {
	t.Parallel()
	private, env := testdrive.PrivateEnvironment(t)
	service := s3.Start(t)
	service.Configure(env)
	env["CATALOG"] = dailyBackups(t)
	p := testdrive.StartPlatform(t, private, env)
	ts := testdrive.OpenTasks(t, env)
	d := p.Desk(t, env, nil)
	source, c := testdrive.Cloneable(t, p, "shared-small")
	breakView(t, c)
	out := d.Run(t, 0, "backups", source.ID).Stdout
	assert.Equal(t, 1, strings.Count(out, "\n"), "backups of an instance without any: %q", out)
	d.Refuse(t, `there is no service instance "none"`, "backups", "none")
	task, _, _ := strings.Cut(d.Run(t, 0, "backups", "now", source.ID).Stdout, " ")
	backups := func() (all []map[string]any) {
		t.Helper()
		d.Read(t, &all, "backups", source.ID)
		return all
	}
	await := func(what string, condition func([]map[string]any) bool) {
		t.Helper()
		testdrive.Eventually(t, limits.Stuck, what, func() bool { return condition(backups()) })
	}
	ts.Await(t, task, "has written and verified a backup", "state = 'succeeded'")
	first := backups()[0]["backup"].(string)
	ts.Exec(t, "UPDATE backup SET created_at = created_at - interval '25 h'")
	ts.Exec(t, "UPDATE task SET created_at = created_at - interval '25 h' WHERE kind = 'backup'")
	testdrive.RunScheduled(t, ts, "back-up-due")
	await("the scheduled backup is complete", func(all []map[string]any) bool {
		return len(all) == 2 && all[0]["reason"] == "schedule" && all[0]["state"] == "complete"
	})
	second := backups()[0]["backup"].(string)
	all := backups()
	assert.True(t, all[0]["verified_at"] == nil && all[1]["verified_at"] != nil,
		"the first backup and that of the schedule: %v", all)
	d.Run(t, 0, "backups", "verify", first, second)
	await("both are verified", func(all []map[string]any) bool {
		return all[0]["verified_at"] != nil && all[1]["verified_at"] != nil
	})
	testdrive.ExpectTenants(t, d.AdminDB, 1, 1)
	metrics := p.Scrape(t)
	age, err := strconv.ParseFloat(metrics[`mysql_broker_backup_age_seconds{plan="shared-small"}`], 64)
	assert.False(t, err != nil || age > 600, "the age of the newest verified backup: %v, %v", age, err)
	for name, want := range map[string]string{"mysql_broker_backups": "2", "mysql_broker_backups_damaged": "0",
		`mysql_broker_backup_interval_seconds{plan="shared-small"}`: "86400"} {
		assert.Equal(t, want, metrics[name], name)
	}
	for _, name := range service.Objects(t) {
		if strings.Contains(name, second+"/data-") {
			require.NoError(t, os.Remove(filepath.Join(service.Dir, name)))
		}
	}
	i := p.NewInstance(t, "shared-small")
	i.AwaitFailure(t, i.Restored(t, second, nil).Operation(t), "damaged")
	await("it is recorded as damaged", func(all []map[string]any) bool { return all[0]["verify_error"] != nil })
	i.Remove(t)
	testdrive.ExpectTenants(t, d.AdminDB, 1, 1)
	i = p.NewInstance(t, "shared-small")
	i.Await(t, i.Restored(t, source.ID, nil).Operation(t)) // the first one
	testdrive.ExpectClone(t, i)

	ts.Exec(t, "DELETE FROM backup")
	assert.Equal(t, "Backups imported: 2.\n", d.Run(t, 0, "backups", "import").Stdout, "import")
	ts.Exec(t, "UPDATE backup SET keep_until = now() - interval '1 h'")
	testdrive.RunScheduled(t, ts, "purge-backups") // the manifests know better
	assert.Len(t, backups(), 2, "after a purge of what is not due")
	source.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
	ts.Exec(t, "UPDATE backup SET state = 'deleting' WHERE id = '"+first+"'")
	testdrive.RunScheduled(t, ts, "purge-backups")
	await("one is deleted", func(all []map[string]any) bool { return len(all) == 1 && all[0]["backup"] == second })
	for _, name := range service.Objects(t) {
		assert.False(t, strings.Contains(name, first), "%s is left", name)
	}
}
