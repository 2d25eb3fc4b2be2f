package backups

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// spoil changes data and objects of a database with makeObjects.
func spoil(t *testing.T, c testdrive.Credentials) {
	testdrive.Exec(t, c.Open(t), "DELETE FROM items WHERE id = 1", "UPDATE items SET name = 'spoilt'", "DROP VIEW names",
		"DROP PROCEDURE add_item", "CREATE TABLE new (id INT PRIMARY KEY)", "INSERT INTO new VALUES (1), (2)",
		"ALTER TABLE items ADD COLUMN extra INT", "CREATE VIEW later AS SELECT * FROM new")
}

// TestRestoreInPlace restores backups of an instance into itself, and then its earlier data.
func TestRestoreInPlace(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.QuotaEnvironment(t, s)
		env["BACKUP_STORE"] = "file://" + t.TempDir()
		faults := testdrive.NewFaults(t, env)
		p := testdrive.StartPlatform(t, s, env)
		var shared testdrive.Instance
		var backup string
		for _, plan := range []string{"shared-small", "dedicated-small"} {
			i := p.Provisioned(t, plan, body{"context": testdrive.CloudFoundry})
			_, c := i.Bound(t, nil)
			testdrive.MakeObjectsAs(t, c)
			testdrive.Exec(t, c.Open(t), "CREATE TABLE calls (id INT AUTO_INCREMENT PRIMARY KEY)", "CREATE FUNCTION called() RETURNS INT "+
				"MODIFIES SQL DATA BEGIN INSERT INTO calls VALUES (NULL); RETURN 1; END",
				"CREATE VIEW calling AS SELECT called() AS n")
			// Definitions in which servers keep the name of the database.
			testdrive.Exec(t, c.Open(t), "SET SESSION foreign_key_checks = 0", "CREATE TABLE orphan (id INT PRIMARY KEY, x INT, "+
				"CONSTRAINT away FOREIGN KEY (x) REFERENCES ghost (id) ON DELETE CASCADE)")
			if s.Flavour == "mariadb" {
				testdrive.Exec(t, c.Open(t), "CREATE SEQUENCE numbers", "CREATE TABLE numbered (id INT PRIMARY KEY "+
					"DEFAULT NEXTVAL(numbers), x INT) WITH SYSTEM VERSIONING", "INSERT INTO numbered (x) VALUES (1), (2)")
			}
			_, reader := i.Bound(t, body{"parameters": body{"role": "read-only"}})
			was := testdrive.Contents(t, c)
			id := i.BackedUp(t)
			if plan == "shared-small" {
				shared, backup = i, id
			}
			spoil(t, c)
			inTheWay, err := c.Open(t).Conn(t.Context())
			require.NoError(t, err)
			for _, statement := range []string{"START TRANSACTION", "INSERT INTO calls VALUES (NULL)"} {
				_, err := inTheWay.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			spoilt := testdrive.Contents(t, c)
			operation := i.RestoreBackup(t, id, "db").Operation(t)
			shown := i.Await(t, operation)
			_, err = inTheWay.ExecContext(t.Context(), "COMMIT")
			assert.Error(t, err, "a transaction of an application outlives the restore")
			assert.Contains(t, shown[len(shown)-1], "backup "+id, "the restore ends with")
			testdrive.ExpectContents(t, "the restored "+plan, c, was)
			testdrive.Exec(t, c.Open(t), "CALL add_item()", "DELETE FROM items WHERE name = 'ADDED'")
			assert.Equal(t, []string{"one", "two"}, testdrive.ReadAll(t, reader.Open(t), "SELECT name FROM names ORDER BY 1"),
				"the read-only binding reads")
			before := testdrive.BackupIn(t, shown)
			frozen, goOn := testdrive.HoldAt(t, faults, "restore: freeze: done")
			operation = i.RestoreBackup(t, before, "db").Operation(t)
			testdrive.Receive(t, frozen, "the second restore is frozen")
			_, err = c.Open(t).Exec("CALL add_item()")
			assert.Error(t, err, "a procedure that the first restore has created can write during the second one")
			goOn()
			i.Await(t, operation)
			if plan == "shared-small" { // with those of two bindings, and a locked owner
				assert.LessOrEqual(t, len(testdrive.AccountsOf(t, p, c)), 3, "the instance's accounts after two restores")
			}
			testdrive.ExpectContents(t, "what was there before in "+plan, c, spoilt)
		}

		for _, l := range p.Operator(env).Audit(t, "--instance", shared.ID) {
			assert.NotEmpty(t, l.RequestID, "the audit does not say who asked for the %s", l.Action)
		}

		// From another instance of the space; and an instance over its quota may write again.
		other := p.Provisioned(t, "shared-small", body{"context": testdrive.CloudFoundry})
		_, c := other.Bound(t, nil)
		testdrive.Fill(t, c.Open(t), 0)
		// By an administrator, as the broker ends sessions of applications once the quota is reached: such a backup fits.
		testdrive.Exec(t, p.Admin(t), fmt.Sprintf(`INSERT INTO %s.filler (content)
			SELECT REPEAT('x', 1 << 20) FROM information_schema.columns LIMIT %d`, c.Database, testdrive.QuotaSmall+4))
		testdrive.AwaitRefused(t, c.Open(t))
		operation := other.RestoreBackup(t, backup, "db").Operation(t)
		full := testdrive.BackupIn(t, other.Await(t, operation))
		testdrive.Exec(t, c.Open(t), "CALL add_item()")
		testdrive.ExpectRefusal(t, other.RestoreBackup(t, full, "db"), http.StatusBadRequest, "Choose a larger plan.")

		_, large := testdrive.Plan(t, "shared-large")
		missing := uuid.NewString()
		stranger := p.Provisioned(t, "shared-small", body{"context": body{"platform": "cloudfoundry",
			"organization_guid": "an-organization", "space_guid": "another-space"}, "space_guid": "another-space"})
		for name, test := range map[string]struct {
			r    testdrive.Response
			says string
		}{
			"not confirmed": {shared.RestoreBackup(t, backup, ""), `"confirm":"db"`},
			"wrong name":    {shared.RestoreBackup(t, backup, "dbs"), `"confirm":"db"`},
			"no name is known": {shared.Update(t, testdrive.Async, body{"parameters": body{"restore_backup": backup, "confirm": "db"}}),
				fmt.Sprintf(`"confirm":%q`, shared.ID)},
			"no such backup":   {shared.RestoreBackup(t, missing, "db"), "There is no backup " + missing + " in this space."},
			"an instance's id": {shared.RestoreBackup(t, shared.ID, "db"), "There is no backup " + shared.ID + " in this space."},
			"another space's":  {stranger.RestoreBackup(t, backup, "db"), "There is no backup " + backup + " in this space."},
			"with another plan": {shared.Update(t, testdrive.Async, body{"context": testdrive.Named, "plan_id": large,
				"parameters": body{"restore_backup": backup, "confirm": "db"}}), "Send two requests."},
		} {
			testdrive.ExpectRefusal(t, test.r, http.StatusBadRequest)
			assert.True(t, strings.Contains(test.r.String("description"), test.says), "%s: %q", name, test.r.String("description"))
		}
		testdrive.ExpectError(t, shared.Update(t, testdrive.Sync, body{"context": testdrive.Named, "parameters": body{"restore_backup": backup,
			"confirm": "db"}}), "AsyncRequired")
	})
}

// spoiltInstance has a backup, and its contents have changed since.
type spoiltInstance struct {
	testdrive.Desk
	i           testdrive.Instance
	c           testdrive.Credentials
	restart     func() testdrive.Platform // see interrupted
	backup      string
	was, spoilt []string // contents at the time of the backup, and now
}

func newSpoiltInstance(t *testing.T, flavour string, configure func(env map[string]string)) *spoiltInstance {
	r := &spoiltInstance{}
	r.Desk, r.i, r.c, r.restart = testdrive.Interrupted(t, testdrive.Private(t, flavour), func(env map[string]string) {
		env["CATALOG"] = testdrive.CatalogRetaining(t)
		configure(env)
	})
	r.was = testdrive.Contents(t, r.c)
	r.backup = r.i.BackedUp(t)
	r.spoil(t)
	return r
}

func (r *spoiltInstance) spoil(t *testing.T) {
	spoil(t, r.c)
	r.spoilt = testdrive.Contents(t, r.c)
}

// begin requests a restore of the backup, and returns the operation.
func (r *spoiltInstance) begin(t *testing.T) string {
	return r.i.RestoreBackup(t, r.backup, "db").Operation(t)
}

// expectSpoilt fails the test unless a restore has changed nothing.
func (r *spoiltInstance) expectSpoilt(t *testing.T, when string) {
	testdrive.ExpectContents(t, when, r.c, r.spoilt)
	testdrive.Exec(t, r.c.Open(t), "INSERT INTO new VALUES (99)", "DELETE FROM new WHERE id = 99")
}

// remove deletes the instance, and checks that nothing is left of it.
func (r *spoiltInstance) remove(t *testing.T) {
	// That of the binding, and a locked owner.
	assert.LessOrEqual(t, len(testdrive.AccountsOf(t, r.Platform, r.c)), 2, "the instance's accounts")
	r.Tasks.Scan(t, new(int), "SELECT 1 FROM backup HAVING count(*) FILTER (WHERE state <> 'complete') = 0")
	r.i.Update(t, testdrive.Sync, body{"parameters": body{"keep_deleted_days": 0}}).Expect(t, http.StatusOK)
	r.i.Remove(t)
	testdrive.ExpectTenants(t, r.Platform.Admin(t), 0, 0)
}

// TestRestoreInPlaceOfDamagedBackups damages the backup of the earlier data while that is needed, which ends the restore
// and keeps everybody from writing, and then the backup that is restored, which changes nothing.
func TestRestoreInPlaceOfDamagedBackups(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	r := newSpoiltInstance(t, servers.Any(t).Flavour, func(env map[string]string) { env["BACKUP_STORE"] = "file://" + store })

	// The backup of the earlier data is damaged before it is needed.
	reached, release := testdrive.HoldAt(t, r.Faults, "after: RENAME TABLE")
	operation := r.begin(t)
	testdrive.Receive(t, reached, "the tables are those of the backup")
	var before string
	r.Tasks.Scan(t, &before, "SELECT id FROM backup ORDER BY created_at DESC LIMIT 1")
	damage(t, filepath.Join(store, r.i.ID, before), "schema-")
	r.Run(t, 0, "tasks", "cancel", operation)
	release()
	r.Tasks.Await(t, operation, "cannot put the data back", "last_error LIKE '%put the earlier data back%damaged%'")
	testdrive.Eventually(t, "a quarter of an hour is over", func() (over bool) {
		r.Tasks.Exec(t, `UPDATE task SET memory = jsonb_set(memory, '{not back since}',
			to_jsonb(now() - interval '16 min')), run_at = now() WHERE state = 'in progress' AND kind = 'restore'`)
		r.Tasks.Scan(t, &over, "SELECT count(*) = 0 FROM task WHERE state = 'in progress' AND kind = 'restore'")
		return over
	})
	r.ExpectEnd(t, operation, "failed", "mixture", before)
	counted := func(when string) {
		testdrive.Eventually(t, "the instance is counted as frozen "+when, func() bool {
			return r.Scrape(t)["mysql_broker_frozen_instances"] == "1"
		})
	}
	frozen := func(when string) {
		_, err := r.c.Open(t).Exec("INSERT INTO items (name) VALUES ('late')")
		assert.EqualValues(t, 1142, testdrive.ErrorNumber(err), "a write %s: %v", when, err)
		testdrive.ReadAll(t, r.c.Open(t), "SELECT COUNT(*) FROM items")
		counted(when)
	}
	frozen("in a mixture")
	operation = r.i.RestoreBackup(t, before, "db").Operation(t)
	r.ExpectEnd(t, operation, "failed")
	frozen("after another restore that failed")

	r.i.Delete(t)
	r.i.Create(t, body{"context": testdrive.CloudFoundry, "parameters": body{"undelete": r.i.ID}}, http.StatusCreated)
	counted("after it was deleted and came back")
	testdrive.ExpectRefusal(t, r.i.NewBinding().Bind(t, nil), http.StatusBadRequest)
	for _, account := range testdrive.AccountsOf(t, r.Platform, r.c) {
		grants := strings.Join(testdrive.ReadAll(t, r.AdminDB, "SHOW GRANTS FOR '"+account+"'@'%'"), "; ")
		assert.False(t, strings.Contains(grants, "INSERT"), "an account of a mixture that came back may write: %s", grants)
	}
	r.i.Await(t, r.begin(t))
	_, r.c = r.i.Bound(t, nil)
	testdrive.ExpectContents(t, "after the mixture", r.c, r.was)
	testdrive.Exec(t, r.c.Open(t), "CALL add_item()", "DELETE FROM items WHERE name = 'ADDED'")

	r.spoil(t)
	damage(t, filepath.Join(store, r.i.ID, r.backup), "data-")
	r.ExpectEnd(t, r.begin(t), "failed", "damaged")
	r.expectSpoilt(t, "after a damaged backup")

	// An operator restores a sound backup with a command.
	sound := r.IDs(t, "backup", "backups", r.i.ID)[0]
	operation, _, _ = strings.Cut(r.Run(t, 0, "backups", "restore", "--yes", sound, r.i.ID).Stdout, " ")
	r.ExpectEnd(t, operation, "succeeded")
	r.Run(t, 1, "backups", "restore", "--yes", "b_none", r.i.ID)
	r.Run(t, 1, "backups", "restore", "--yes", sound, "none")
	r.remove(t)
}

// damage changes the files in a directory whose names begin with a prefix.
func damage(t *testing.T, dir, prefix string) {
	paths, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	require.True(t, err == nil && len(paths) != 0, "files %s* in %s: %q, %v", prefix, dir, paths, err)
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		raw[len(raw)/2] ^= 1
		require.NoError(t, os.WriteFile(path, raw, 0o600))
	}
}
