// Package backups tests what becomes of data, with the compiled broker: backups, archives of binary logs, restores,
// retained data, and recovery from a lost PostgreSQL or lost servers.
package backups

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

type body = testdrive.Body

func TestMain(m *testing.M) { servers.Main(m) }

// TestBackup backs an instance up to a real S3 service, changes its data, deletes it, and restores it. Operators and the
// schedule take backups and verify them. A damaged one is found, those whose days are over are deleted, and a PostgreSQL
// that has lost them has them recorded again.
func TestBackup(t *testing.T) {
	t.Parallel()
	settings := []string{"max_allowed_packet=2M"}
	s := servers.Any(t)
	if s.Flavour == "mariadb" {
		settings = append(settings, "partition=OFF")
	}
	private := testdrive.PrivateWith(t, s.Flavour, settings...)
	env := testdrive.Environment(t, private)
	service := s3.Start(t)
	service.Configure(env)
	env["CATALOG"] = testdrive.EditedCatalog(t, testdrive.InPlan("shared-small", "max_storage_mb: 100,",
		"max_storage_mb: 100, backup_every_hours: 24, backup_keep_days: 1,"))
	p := testdrive.StartPlatform(t, private, env)
	ts := testdrive.OpenTasks(t, env)
	d := p.Desk(t, env, nil)
	source, c := testdrive.Cloneable(t, p, "shared-small")
	testdrive.Exec(t, c.Open(t), "CREATE TABLE passing (id INT)", "CREATE VIEW broken AS SELECT id FROM passing", "DROP TABLE passing")
	out := d.Run(t, 0, "backups", source.ID).Stdout
	assert.Equal(t, 1, strings.Count(out, "\n"), "backups of an instance without any: %q", out)
	d.Refuse(t, `there is no service instance "none"`, "backups", "none")
	testdrive.ExpectError(t, source.Update(t, testdrive.Sync, body{"parameters": body{"backup": "now"}}), "AsyncRequired")
	task, _, _ := strings.Cut(d.Run(t, 0, "backups", "now", source.ID).Stdout, " ")
	backups := func() (all []map[string]any) {
		d.Read(t, &all, "backups", source.ID)
		return all
	}
	await := func(what string, condition func([]map[string]any) bool) {
		testdrive.Eventually(t, what, func() bool { return condition(backups()) })
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
		if strings.HasPrefix(name, "mysql/"+source.ID+"/"+second+"/data-") {
			require.NoError(t, os.Remove(filepath.Join(service.Dir, name)))
		}
	}
	i := p.NewInstance(t, "shared-small")
	i.AwaitFailure(t, i.Restored(t, second, nil).Operation(t), "damaged")
	await("it is recorded as damaged", func(all []map[string]any) bool { return all[0]["verify_error"] != nil })
	i.Remove(t)
	testdrive.ExpectTenants(t, d.AdminDB, 1, 1)
	testdrive.Exec(t, c.Open(t), "DELETE FROM items", "DROP VIEW names")
	for _, plan := range []string{"shared-small", "dedicated-small"} {
		i := p.NewInstance(t, plan)
		fields := body{"context": testdrive.CloudFoundry, "parameters": body{"restore_from": source.ID}}
		testdrive.ExpectError(t, i.Provision(t, testdrive.Sync, fields), "AsyncRequired")
		shown := i.Await(t, i.Restored(t, source.ID, nil).Operation(t)) // the first one
		assert.Regexp(t, "^Left out, .*: view broken.$", shown[len(shown)-1], "the restore of a broken view ends with")
		i.Restored(t, source.ID, nil).Expect(t, http.StatusOK)
		testdrive.ExpectClone(t, i)
	}
	source.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
	i = p.NewInstance(t, "shared-small")
	i.Await(t, i.Restored(t, source.ID, nil).Operation(t))
	testdrive.ExpectClone(t, i)
	for from, fields := range map[string]body{uuid.NewString(): nil, source.ID: {"space_guid": "another-space"}} {
		testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-small").Restored(t, from, fields), 400,
			"There is no backup "+from+" in this space.")
	}

	ts.Exec(t, "DELETE FROM backup")
	left := filepath.Join(service.Dir, "mysql", source.ID, "b_left\u202e")
	require.NoError(t, errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, "data"), nil, 0o600)))
	done := d.Run(t, 0, "backups", "import")
	assert.Equal(t, "Backups imported: 2.\n", done.Stdout, "import")
	assert.Contains(t, done.Stderr, source.ID+`/b_left\u202e/ is what an interrupted backup`)
	ts.Exec(t, "UPDATE backup SET keep_until = now() - interval '1 h'")
	testdrive.RunScheduled(t, ts, "purge-backups") // the manifests know better
	assert.Len(t, backups(), 2, "after a purge of what is not due")
	ts.Exec(t, "UPDATE backup SET state = 'deleting' WHERE id = '"+first+"'")
	testdrive.RunScheduled(t, ts, "purge-backups")
	await("one is deleted", func(all []map[string]any) bool { return len(all) == 1 && all[0]["backup"] == second })
	for _, name := range service.Objects(t) {
		assert.False(t, strings.Contains(name, first), "%s is left", name)
	}
	testRefusedBySettings(t, d)
}

// A server ends whenever it is asked for a view, as some versions do at some views. It is asked once.
func TestServerThatEndsAtAView(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		server := testdrive.StartCrashable(t, s.Flavour)
		proxy := testdrive.NewProxy(t, server.Address())
		proxy.HideTLS()
		plain := server.MySQL
		plain.Port, plain.CA = proxy.Port(), ""
		p, _ := testdrive.PlatformOn(t, plain, "BACKUP_STORE", "file://"+t.TempDir())
		i := p.MakeOwn(t, "shared-small")
		_, c := i.Bound(t, nil)
		view := []string{"CREATE TABLE items (id INT)", "CREATE VIEW fatal AS SELECT id FROM items"}
		testdrive.Exec(t, c.Open(t), view...)

		refused := []string{"the definition of the view fatal", "Drop it"}
		backUp := func() string { return i.BackUp(t).Operation(t) }
		asked := proxy.HoldRequest("SHOW CREATE VIEW `fatal`")
		operation := backUp()
		testdrive.Receive(t, asked, "the server is asked for the view")
		server.Crash(t)()
		again := proxy.HoldRequest("SHOW CREATE VIEW `fatal`")
		i.AwaitFailure(t, operation, refused...)
		i.AwaitFailure(t, backUp(), refused...)
		clone := p.OwnInstance(t, "shared-small")
		clone.AwaitFailure(t, clone.Clone(t, i.ID, nil).Operation(t), refused...)
		clone.Delete(t)
		select {
		case <-again:
			t.Error("the server was asked again")
		default:
		}
		proxy.HoldRequest("nothing that anybody sends")

		testdrive.Exec(t, c.Open(t), "DROP VIEW fatal")
		i.BackedUp(t)
		testdrive.Exec(t, c.Open(t), view[1])
		i.BackedUp(t) // the dropped one was forgotten
	})
}

// A backup of a dedicated server that the settings of the shared server refuse is not damaged. It is verified as soon as
// an operator has changed the settings and asks for it. Partitions, which those settings forbid on MariaDB, are no reason
// to refuse it.
func testRefusedBySettings(t *testing.T, d testdrive.Desk) {
	i := d.MakeOwn(t, "dedicated-small")
	_, c := i.Bound(t, nil)
	testdrive.Exec(t, c.Open(t), "CREATE TABLE wide (id INT PRIMARY KEY, b LONGBLOB)",
		"INSERT INTO wide VALUES (1, REPEAT('x', 4 << 20))",
		"CREATE TABLE parts (id INT PRIMARY KEY, name VARCHAR(20)) PARTITION BY HASH (id) PARTITIONS 4",
		"INSERT INTO parts VALUES (1, 'one'), (2, 'two')")
	shown := i.Await(t, i.BackUp(t).Operation(t))
	id := testdrive.BackupIn(t, shown)
	assert.Contains(t, shown[len(shown)-1], "could not be restored as a test yet",
		"a backup that cannot be verified ends with")
	testdrive.ExpectRefusal(t, d.OwnInstance(t, "dedicated-small").Restored(t, i.ID, nil), http.StatusBadRequest, id+".")
	only := func() map[string]any {
		var all []map[string]any
		d.Read(t, &all, "backups", i.ID)
		require.True(t, len(all) == 1 && all[0]["verify_error"] == nil, "backups: %v", all)
		return all[0]
	}
	d.AwaitLog(t, "a backup cannot be verified on a server with these settings")
	why, _ := only()["verify_refused"].(string)
	assert.True(t, strings.HasPrefix(why, "shared server ") && strings.Contains(why, "max_allowed_packet"),
		"the backup is refused because of %q", why)
	out := d.Run(t, 0, "backups", i.ID).Stdout
	assert.True(t, strings.Contains(out, "\trefused by settings\t") && strings.Contains(out, why),
		"backups printed %q", out)
	testdrive.Exec(t, d.AdminDB, "SET GLOBAL max_allowed_packet = 64 << 20")
	d.Run(t, 0, "backups", "verify", id)
	testdrive.Eventually(t, "the backup is verified", func() bool {
		b := only()
		return b["verified_at"] != nil && b["verify_refused"] == nil
	})
}
