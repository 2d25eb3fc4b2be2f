package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// restoreBackup requests a restore of a backup in place.
func (i instance) restoreBackup(t *testing.T, id, confirm string) testdrive.Response {
	t.Helper()
	parameters := body{"restore_backup": id}
	if confirm != "" {
		parameters["confirm"] = confirm
	}
	return i.update(t, later, body{"context": named, "parameters": parameters})
}

// named is a context with the instance's name, as Cloud Foundry sends it.
var named = body{"platform": "cloudfoundry", "organization_guid": "an-organization", "space_guid": "a-space",
	"instance_name": "db"}

// backedUp takes a backup, and returns its id.
func (i instance) backedUp(t *testing.T) string {
	t.Helper()
	return backupIn(t, i.await(t, i.backUp(t).Expect(t, http.StatusAccepted).String("operation")))
}

// backupIn returns the last backup id in the description of an operation.
func backupIn(t *testing.T, shown []string) string {
	t.Helper()
	last := shown[len(shown)-1]
	at := strings.LastIndex(last, "b_")
	if at < 0 {
		t.Fatalf("no backup is named in %q", last)
	}
	return strings.TrimRight(strings.Fields(last[at:])[0], ".,:")
}

// contents lists everything that a database has: every object as it was created, without its definer, and the checksum
// of every table.
func contents(t *testing.T, c credentials) (all []string) {
	t.Helper()
	db := c.open(t)
	for _, query := range []string{
		"SELECT CONCAT('table ', table_name) FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
		`SELECT CONCAT_WS(' ', 'column', table_name, ordinal_position, column_name, column_type, column_default, is_nullable,
			extra, generation_expression) FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY 1`,
		`SELECT CONCAT_WS(' ', 'index', table_name, index_name, seq_in_index, column_name, non_unique)
			FROM information_schema.statistics WHERE table_schema = DATABASE() ORDER BY 1`,
		`SELECT CONCAT_WS(' ', 'foreign key', table_name, constraint_name, referenced_table_name)
			FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE() ORDER BY 1`,
		"SELECT CONCAT_WS(' ', 'view', table_name, view_definition) FROM information_schema.views WHERE table_schema = DATABASE() ORDER BY 1",
		`SELECT CONCAT_WS(' ', 'trigger', trigger_name, event_object_table, action_timing, event_manipulation, action_statement)
			FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY 1`,
		"SELECT CONCAT_WS(' ', 'routine', routine_type, routine_name) FROM information_schema.routines WHERE routine_schema = DATABASE() ORDER BY 1",
		"SELECT CONCAT_WS(' ', 'event', event_name, status) FROM information_schema.events WHERE event_schema = DATABASE() ORDER BY 1",
	} {
		for _, line := range readAll(t, db, query) {
			all = append(all, strings.ReplaceAll(line, c.Database, "DATABASE"))
		}
	}
	tables := readAll(t, db, `SELECT table_name FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_type LIKE '%TABLE' ORDER BY 1`)
	for _, table := range tables {
		var name, sum string
		if err := db.QueryRow("CHECKSUM TABLE `"+table+"` EXTENDED").Scan(&name, &sum); err != nil {
			t.Fatal(err)
		}
		all = append(all, "checksum "+table+" "+sum)
	}
	return all
}

func expectContents(t *testing.T, what string, c credentials, want []string) {
	t.Helper()
	got := contents(t, c)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s lacks %q", what, line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%s has %q", what, line)
		}
	}
}

// spoil changes data and objects of a database with makeObjects.
func spoil(t *testing.T, c credentials) {
	t.Helper()
	exec(t, c.open(t), "DELETE FROM items WHERE id = 1", "UPDATE items SET name = 'spoilt'", "DROP VIEW names",
		"DROP PROCEDURE add_item", "CREATE TABLE new (id INT PRIMARY KEY)", "INSERT INTO new VALUES (1), (2)",
		"ALTER TABLE items ADD COLUMN extra INT", "CREATE VIEW later AS SELECT * FROM new")
}

// TestRestoreInPlace restores backups of an instance into itself, and then its earlier data.
func TestRestoreInPlace(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := quotaEnvironment(t, s)
		env["BACKUP_STORE"] = "file://" + t.TempDir()
		faults := testdrive.NewFaults(t, env)
		p := startPlatform(t, s, env)
		var shared instance
		var backup string
		for _, plan := range []string{"shared-small", "dedicated-small"} {
			i := p.provisioned(t, plan, body{"context": cloudFoundry})
			_, c := i.bound(t, nil)
			makeObjectsAs(t, c)
			exec(t, c.open(t), "CREATE TABLE calls (id INT AUTO_INCREMENT PRIMARY KEY)", "CREATE FUNCTION called() RETURNS INT "+
				"MODIFIES SQL DATA BEGIN INSERT INTO calls VALUES (NULL); RETURN 1; END",
				"CREATE VIEW calling AS SELECT called() AS n")
			_, reader := i.bound(t, body{"parameters": body{"role": "read-only"}})
			was := contents(t, c)
			id := i.backedUp(t)
			if plan == "shared-small" {
				shared, backup = i, id
			}
			spoil(t, c)
			spoilt := contents(t, c)
			operation := i.restoreBackup(t, id, "db").Expect(t, http.StatusAccepted).String("operation")
			shown := i.await(t, operation)
			if last := shown[len(shown)-1]; !strings.Contains(last, "backup "+id) {
				t.Errorf("the restore ends with %q", last)
			}
			expectContents(t, "the restored "+plan, c, was)
			exec(t, c.open(t), "CALL add_item()", "DELETE FROM items WHERE name = 'ADDED'")
			if got := readAll(t, reader.open(t), "SELECT name FROM names ORDER BY 1"); !slices.Equal(got, []string{"one", "two"}) {
				t.Errorf("the read-only binding reads %q", got)
			}
			before := backupIn(t, shown)
			frozen, granted, filled := newGate(t, "restore: freeze: done"), newGate(t, "after: GRANT SELECT"),
				newGate(t, "restore: restored")
			var begun atomic.Bool
			faults.Decide(func(_ int, at string) testdrive.Word {
				frozen.pass(at)
				filled.pass(at)
				if at == "restore: restore: begins" {
					begun.Store(true)
				}
				if begun.Load() {
					granted.pass(at)
				}
				return testdrive.GoOn
			})
			operation = i.restoreBackup(t, before, "db").Expect(t, http.StatusAccepted).String("operation")
			testdrive.Receive(t, frozen.reached, "the second restore is frozen")
			if _, err := c.open(t).Exec("CALL add_item()"); err == nil {
				t.Error("a procedure that the first restore has created can write during the second one")
			}
			frozen.release()
			call := func(function string) {
				t.Helper()
				was := readAll(t, reader.open(t), "SELECT COUNT(*) FROM calls")
				rows, err := reader.open(t).Query("SELECT n FROM calling")
				if err == nil {
					err = rows.Close()
				}
				if is := readAll(t, reader.open(t), "SELECT COUNT(*) FROM calls"); is[0] != was[0] {
					t.Errorf("%s can write during the second restore (%v)", function, err)
				}
			}
			if plan == "shared-small" {
				testdrive.Receive(t, granted.reached, "the owner of the second restore may write")
				call("a function that the first restore has created")
			}
			granted.release()
			testdrive.Receive(t, filled.reached, "the second restore has rows")
			call("a function of the backup")
			filled.release()
			i.await(t, operation)
			if all := accountsOf(t, p, c); plan == "shared-small" && len(all) > 3 { // of two bindings, and a locked owner
				t.Errorf("after two restores, the instance has the accounts %q", all)
			}
			expectContents(t, "what was there before in "+plan, c, spoilt)
		}

		for _, l := range p.operator(env).audit(t, "--instance", shared.id) {
			if l.RequestID == "" {
				t.Errorf("the audit does not say who asked for the %s", l.Action)
			}
		}

		// From another instance of the space; and an instance over its quota may write again.
		other := p.provisioned(t, "shared-small", body{"context": cloudFoundry})
		_, c := other.bound(t, nil)
		fill(t, c.open(t), 0)
		// By an administrator, as the broker ends sessions of applications once the quota is reached: such a backup fits.
		exec(t, p.admin(t), fmt.Sprintf(`INSERT INTO %s.filler (content)
			SELECT REPEAT('x', 1 << 20) FROM information_schema.columns LIMIT %d`, c.Database, quotaSmall+4))
		awaitRefused(t, c.open(t))
		operation := other.restoreBackup(t, backup, "db").Expect(t, http.StatusAccepted).String("operation")
		full := backupIn(t, other.await(t, operation))
		exec(t, c.open(t), "CALL add_item()")
		expectRefusal(t, other.restoreBackup(t, full, "db"), http.StatusBadRequest, "Choose a larger plan.")

		missing := uuid.NewString()
		stranger := p.provisioned(t, "shared-small", body{"context": body{"platform": "cloudfoundry",
			"organization_guid": "an-organization", "space_guid": "another-space"}, "space_guid": "another-space"})
		for name, test := range map[string]struct {
			r    testdrive.Response
			says string
		}{
			"not confirmed": {shared.restoreBackup(t, backup, ""), `"confirm":"db"`},
			"wrong name":    {shared.restoreBackup(t, backup, "dbs"), `"confirm":"db"`},
			"no name is known": {shared.update(t, later, body{"parameters": body{"restore_backup": backup, "confirm": "db"}}),
				fmt.Sprintf(`"confirm":%q`, shared.id)},
			"no such backup":   {shared.restoreBackup(t, missing, "db"), "There is no backup " + missing + " in this space."},
			"an instance's id": {shared.restoreBackup(t, shared.id, "db"), "There is no backup " + shared.id + " in this space."},
			"another space's":  {stranger.restoreBackup(t, backup, "db"), "There is no backup " + backup + " in this space."},
			"with another plan": {shared.update(t, later, body{"context": named, "plan_id": planID(t, "shared-large"),
				"parameters": body{"restore_backup": backup, "confirm": "db"}}), "Send two requests."},
			"with another parameter": {shared.update(t, later, body{"parameters": body{"restore_backup": backup, "confirm": "db",
				"backup": "now"}}), `Parameters "backup" and "restore_backup" exclude each other`},
		} {
			if expectRefusal(t, test.r, http.StatusBadRequest); !strings.Contains(test.r.String("description"), test.says) {
				t.Errorf("%s: %q", name, test.r.String("description"))
			}
		}
		expectError(t, shared.update(t, now, body{"context": named, "parameters": body{"restore_backup": backup,
			"confirm": "db"}}), "AsyncRequired")
	})
}

func planID(t *testing.T, plan string) string {
	t.Helper()
	_, id := testdrive.Plan(t, plan)
	return id
}

// spoiltInstance has a backup, and its contents have changed since.
type spoiltInstance struct {
	desk
	i           instance
	c           credentials
	restart     func() platform // see interrupted
	store       string          // the directory that holds backups
	backup      string
	was, spoilt []string // contents at the time of the backup, and now
}

func newSpoiltInstance(t *testing.T, flavour string) *spoiltInstance {
	t.Helper()
	r := &spoiltInstance{store: filepath.Join(t.TempDir(), "store")}
	r.desk, r.i, r.c, r.restart = interrupted(t, flavour, func(env map[string]string) {
		env["CATALOG"], env["BACKUP_STORE"] = catalogRetaining(t), "file://"+r.store
	})
	r.was = contents(t, r.c)
	r.backup = r.i.backedUp(t)
	r.spoil(t)
	return r
}

func (r *spoiltInstance) spoil(t *testing.T) {
	t.Helper()
	spoil(t, r.c)
	r.spoilt = contents(t, r.c)
}

// begin requests a restore of the backup, and returns the operation.
func (r *spoiltInstance) begin(t *testing.T) string {
	t.Helper()
	return r.i.restoreBackup(t, r.backup, "db").Expect(t, http.StatusAccepted).String("operation")
}

// revive starts another broker, after the last one was killed.
func (r *spoiltInstance) revive(t *testing.T) {
	t.Helper()
	r.faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
	r.platform = r.restart()
	r.i.platform = r.platform
}

// expectSpoilt fails the test unless a restore has changed nothing.
func (r *spoiltInstance) expectSpoilt(t *testing.T, when string) {
	t.Helper()
	expectContents(t, when, r.c, r.spoilt)
	exec(t, r.c.open(t), "INSERT INTO new VALUES (99)", "DELETE FROM new WHERE id = 99")
}

// expectRestored fails the test unless the contents are those of the backup, and can be changed.
func (r *spoiltInstance) expectRestored(t *testing.T, when string) {
	t.Helper()
	expectContents(t, when, r.c, r.was)
	exec(t, r.c.open(t), "CALL add_item()", "DELETE FROM items WHERE name = 'ADDED'")
}

// expectCancelled fails the test unless the operation ends as one that an operator cancelled.
func (r *spoiltInstance) expectCancelled(t *testing.T, operation, when string) {
	t.Helper()
	if state, says := r.ended(t, operation); state != "failed" || !strings.HasPrefix(says, byOperator) {
		t.Errorf("the restore that was cancelled %s %s: %s", when, state, says)
	}
	r.expectSpoilt(t, "after a restore that was cancelled "+when)
}

// remove deletes the instance, and checks that nothing is left of it.
func (r *spoiltInstance) remove(t *testing.T) {
	t.Helper()
	if all := accountsOf(t, r.platform, r.c); len(all) > 2 { // that of the binding, and a locked owner
		t.Errorf("the instance has the accounts %q", all)
	}
	r.tasks.scan(t, new(int), "SELECT 1 FROM backup HAVING count(*) FILTER (WHERE state <> 'complete') = 0")
	r.i.update(t, now, body{"parameters": body{"keep_deleted_days": 0}}).Expect(t, http.StatusOK)
	r.i.remove(t)
	expectTenants(t, r.platform.admin(t), 0, 0)
}

// TestRestoreInPlaceCancelled cancels restores at several points, once while the object store is away. Each time, the
// instance is as before.
func TestRestoreInPlaceCancelled(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		r := newSpoiltInstance(t, s.Flavour)
		for _, point := range []string{"restore: freeze: done", "restore: written", "restore: restored", "restore: thaw: done"} {
			reached, release := holdAt(t, r.faults, point)
			operation := r.begin(t)
			testdrive.Receive(t, reached, point)
			if again := r.begin(t); again != operation {
				t.Errorf("a repeated request began %s beside %s", again, operation)
			}
			if _, err := r.c.open(t).Exec("INSERT INTO items (name) VALUES ('late')"); point != "restore: thaw: done" && err == nil {
				t.Errorf("an application can write at %s", point)
			}
			expectError(t, r.i.newBinding().bind(t, nil), "ConcurrencyError")
			expectError(t, r.i.deprovision(t, later), "ConcurrencyError") // it would keep a mixture
			r.run(t, 0, "tasks", "cancel", operation)
			release()
			r.expectCancelled(t, operation, "at "+point)
		}

		reached, release := holdAt(t, r.faults, "restore: restored")
		operation := r.begin(t)
		testdrive.Receive(t, reached, "rows are restored")
		if err := os.Rename(r.store, r.store+"-away"); err != nil {
			t.Fatal(err)
		}
		r.run(t, 0, "tasks", "cancel", operation)
		release()
		r.tasks.await(t, operation, "cannot put the data back", "last_error LIKE '%put the earlier data back%'")
		if _, err := r.c.open(t).Exec("INSERT INTO items (name) VALUES ('late')"); err == nil {
			t.Error("an application can write in a mixture")
		}
		if err := os.Rename(r.store+"-away", r.store); err != nil {
			t.Fatal(err)
		}
		r.run(t, 0, "tasks", "retry", operation)
		r.expectCancelled(t, operation, "while the object store was away")
		r.testThawGivenUp(t)
		r.remove(t)
	})
}

// testThawGivenUp puts the earlier data back, and gives up the step that gives the write privileges back. The broker
// gives them back later.
func (r *spoiltInstance) testThawGivenUp(t *testing.T) {
	reached, release := holdAt(t, r.faults, "restore: restored")
	operation := r.begin(t)
	testdrive.Receive(t, reached, "rows are restored")
	r.run(t, 0, "tasks", "cancel", operation)
	enough := r.failing("thaw")
	release()
	r.tasks.await(t, operation, "cannot give the privileges back", "last_error LIKE '%step thaw%'")
	testdrive.Eventually(t, takeoverTime, "the step has had all its attempts", func() (over bool) {
		r.tasks.exec(t, "UPDATE task SET attempt = 1000, run_at = now() WHERE state = 'in progress' AND kind = 'restore'")
		r.tasks.scan(t, &over, "SELECT count(*) = 0 FROM task WHERE state = 'in progress' AND kind = 'restore'")
		return over
	})
	enough()
	if state, says := r.ended(t, operation); state != "failed" || !strings.Contains(says, "The data are as before") {
		t.Errorf("the restore that did not give the privileges back %s: %s", state, says)
	}
	app := r.c.open(t)
	testdrive.Eventually(t, testdrive.Patience, "applications can write again", func() bool {
		_, err := app.Exec("INSERT INTO new VALUES (98)")
		return err == nil
	})
	exec(t, app, "DELETE FROM new WHERE id = 98")
	r.expectSpoilt(t, "after the privileges were given back late")
}

// TestRestoreInPlaceOfDamagedBackups damages the backup of the earlier data while that is needed, which ends the restore
// and keeps everybody from writing, and then the backup that is restored, which changes nothing.
func TestRestoreInPlaceOfDamagedBackups(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		r := newSpoiltInstance(t, s.Flavour)
		r.testMixture(t)

		r.spoil(t)
		damage(t, filepath.Join(r.store, r.i.id, r.backup), "data-")
		if state, says := r.ended(t, r.begin(t)); state != "failed" || !strings.Contains(says, "damaged") {
			t.Errorf("the restore of a damaged backup %s: %s", state, says)
		}
		r.expectSpoilt(t, "after a damaged backup")

		// An operator restores a sound backup with a command.
		sound := r.ids(t, "backup", "backups", r.i.id)[0]
		operation, _, _ := strings.Cut(r.run(t, 0, "backups", "restore", sound, r.i.id).Stdout, " ")
		if state, says := r.ended(t, operation); state != "succeeded" {
			t.Errorf("backups restore %s: %s", state, says)
		}
		r.run(t, 1, "backups", "restore", "b_none", r.i.id)
		r.run(t, 1, "backups", "restore", sound, "none")
		r.remove(t)
	})
}

// testMixture damages the backup of the earlier data before it is needed.
func (r *spoiltInstance) testMixture(t *testing.T) {
	reached, release := holdAt(t, r.faults, "restore: restored")
	operation := r.begin(t)
	testdrive.Receive(t, reached, "rows are restored")
	var before string
	r.tasks.scan(t, &before, "SELECT id FROM backup ORDER BY created_at DESC LIMIT 1")
	damage(t, filepath.Join(r.store, r.i.id, before), "schema-")
	r.run(t, 0, "tasks", "cancel", operation)
	release()
	r.tasks.await(t, operation, "cannot put the data back", "last_error LIKE '%put the earlier data back%damaged%'")
	testdrive.Eventually(t, takeoverTime, "a quarter of an hour is over", func() (over bool) {
		r.tasks.exec(t, `UPDATE task SET memory = jsonb_set(memory, '{not back since}',
			to_jsonb(now() - interval '16 min')), run_at = now() WHERE state = 'in progress' AND kind = 'restore'`)
		r.tasks.scan(t, &over, "SELECT count(*) = 0 FROM task WHERE state = 'in progress' AND kind = 'restore'")
		return over
	})
	if state, says := r.ended(t, operation); state != "failed" || !strings.Contains(says, "mixture") ||
		!strings.Contains(says, before) {
		t.Errorf("the restore whose earlier data were lost %s: %s", state, says)
	}
	counted := func(when string) {
		t.Helper()
		testdrive.Eventually(t, testdrive.Patience, "the instance is counted as frozen "+when, func() bool {
			return r.Scrape(t)["mysql_broker_frozen_instances"] == "1"
		})
	}
	frozen := func(when string) {
		t.Helper()
		if _, err := r.c.open(t).Exec("INSERT INTO items (name) VALUES ('late')"); number(err) != 1142 {
			t.Errorf("a write %s: %v", when, err)
		}
		readAll(t, r.c.open(t), "SELECT COUNT(*) FROM items")
		counted(when)
	}
	frozen("in a mixture")
	for what, r := range map[string]testdrive.Response{"a bind": r.i.newBinding().bind(t, nil),
		"a move": r.i.updatePlan(t, later, "dedicated-small")} {
		if expectRefusal(t, r, http.StatusBadRequest); !strings.Contains(r.String("description"), "restore_backup") {
			t.Errorf("%s of a mixture: %q", what, r.String("description"))
		}
	}
	copied := r.ownInstance(t, "shared-small")
	copied.await(t, copied.clone(t, r.i.id, nil).Expect(t, http.StatusAccepted).String("operation"))
	copied.update(t, now, body{"parameters": body{"keep_deleted_days": 0}}).Expect(t, http.StatusOK)
	copied.remove(t)
	operation = r.i.restoreBackup(t, before, "db").Expect(t, http.StatusAccepted).String("operation")
	if state, says := r.ended(t, operation); state != "failed" {
		t.Errorf("the restore of a damaged backup %s: %s", state, says)
	}
	frozen("after another restore that failed")

	r.i.delete(t)
	r.i.create(t, body{"context": cloudFoundry, "parameters": body{"undelete": r.i.id}}, http.StatusCreated)
	counted("after it was deleted and came back")
	expectRefusal(t, r.i.newBinding().bind(t, nil), http.StatusBadRequest)
	for _, grants := range grantsOfDefiners(t, r.admin, r.c.Database) {
		if strings.Contains(grants, "INSERT") {
			t.Errorf("an account of a mixture that came back may write: %s", grants)
		}
	}
	r.i.await(t, r.begin(t))
	_, r.c = r.i.bound(t, nil)
	r.expectRestored(t, "after the mixture")
}

// TestRestoreInPlaceKilled kills a broker in every step of a restore. The next one finishes it.
func TestRestoreInPlaceKilled(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		r := newSpoiltInstance(t, s.Flavour)
		for _, point := range []string{"restore: check: done", "restore: freeze: done", "restore: written",
			"restore: record: done", "restore: restored", "restore: restore: done", "restore: end owner: done",
			"restore: thaw: done", "restore: ending as succeeded"} {
			die(r.faults, r.platform, point)
			r.i.restoreBackup(t, r.backup, "db")
			r.Wait(t)
			r.revive(t)
			if state, says := r.ended(t, r.latest(t, r.i)); state != "succeeded" {
				t.Errorf("the restore whose broker was killed at %s %s: %s", point, state, says)
			}
			r.expectRestored(t, "after a kill at "+point)
		}
		r.remove(t)
	})
}

// TestRestoreInPlacePutBackByKilledBrokers kills a broker in every step in which it puts the earlier data back.
func TestRestoreInPlacePutBackByKilledBrokers(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		r := newSpoiltInstance(t, s.Flavour)
		for _, point := range []string{"restore: put back", "restore: put back: done", "restore: ending as failed"} {
			const fails = "restore: end owner: begins" // until the restore is given up
			r.faults.Decide(func(_ int, at string) testdrive.Word {
				switch at {
				case fails:
					return testdrive.Fail
				case point:
					return testdrive.Die
				}
				return testdrive.GoOn
			})
			operation := r.begin(t)
			r.tasks.await(t, operation, "has a step that fails", "last_error <> ''")
			r.run(t, 0, "tasks", "cancel", operation)
			die(r.faults, r.platform, point)
			r.Wait(t)
			r.revive(t)
			r.expectCancelled(t, operation, "and killed at "+point)
		}
		r.remove(t)
	})
}

// grantsOfDefiners are the privileges of the accounts that define routines in a database.
func grantsOfDefiners(t *testing.T, admin *sql.DB, database string) (all []string) {
	t.Helper()
	for _, definer := range readAll(t, admin, "SELECT DISTINCT definer FROM information_schema.routines WHERE "+
		"routine_schema = '"+database+"'") {
		definer, _, _ = strings.Cut(definer, "@")
		all = append(all, readAll(t, admin, "SHOW GRANTS FOR '"+definer+"'@'%'")...)
	}
	if len(all) == 0 {
		t.Fatal("nobody defines a routine")
	}
	return all
}

// damage changes the files in a directory whose names begin with a prefix.
func damage(t *testing.T, dir, prefix string) {
	t.Helper()
	for _, path := range find(t, dir, prefix) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw[len(raw)/2] ^= 1
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// find lists the files in a directory whose names begin with a prefix.
func find(t *testing.T, dir, prefix string) (paths []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("files %s* in %s: %q, %v", prefix, dir, paths, err)
	}
	return paths
}
