package backups

import (
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// shop has all kinds of objects that have a definer, and data of several types.
var shop = []string{
	"CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR(40) CHARACTER SET utf8mb4, photo BLOB, since DATETIME(6))",
	"CREATE TABLE `odd ``name``` (id INT AUTO_INCREMENT PRIMARY KEY, customer INT, f FLOAT, b BIT(8), " +
		"FOREIGN KEY (customer) REFERENCES customer (id))",
	"CREATE TABLE log (n INT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(40))",
	"CREATE TABLE tick (n INT AUTO_INCREMENT PRIMARY KEY)",
	"INSERT INTO customer VALUES (1, 'Zoë 🐟', x'00ff27', '2020-02-29 12:00:00.000001'), (2, 'Jürgen', NULL, NULL)",
	"INSERT INTO `odd ``name``` (customer, f, b) VALUES (1, 0.12345679, b'101'), (2, 16777217, b'0')",
	"CREATE VIEW names AS SELECT id, name FROM customer",
	"CREATE VIEW long_names AS SELECT name FROM names WHERE CHAR_LENGTH(name) > 5",
	"CREATE FUNCTION customers() RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM customer)",
	"CREATE PROCEDURE greet() INSERT INTO log (text) VALUES (CONCAT('hello ', customers()))",
	"CREATE TRIGGER joined AFTER INSERT ON customer FOR EACH ROW INSERT INTO log (text) VALUES (NEW.name)",
	"CREATE EVENT ticking ON SCHEDULE EVERY 1 SECOND DO INSERT INTO tick () VALUES ()",
}

// shopContents are the contents of the shop that do not change by themselves.
func shopContents(t *testing.T, c testdrive.Credentials) []string {
	return slices.DeleteFunc(testdrive.Contents(t, c), func(line string) bool {
		return strings.HasPrefix(line, "checksum tick ")
	})
}

// expectShop fails the test unless the shop has these contents, and the accounts that define its objects may use them.
func expectShop(t *testing.T, c testdrive.Credentials, was []string) {
	is := shopContents(t, c)
	assert.True(t, slices.Equal(is, was), "before:\n%s\nafter:\n%s", strings.Join(was, "\n"), strings.Join(is, "\n"))
	testdrive.Exec(t, c.Open(t), "SELECT * FROM long_names", "CALL greet()", "INSERT INTO customer (id, name) VALUES (3, 'new')")
}

// ticks counts how often the shop's event has run.
func ticks(t *testing.T, db *sql.DB, database string) int {
	return testdrive.Read[int](t, db, fmt.Sprintf("SELECT COUNT(*) FROM `%s`.tick", database))
}

// An instance is deleted, and comes back as another one, with all that it held. Meanwhile nobody has access, and
// nothing runs.
func TestUndelete(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		p, env := testdrive.PlatformOn(t, s, "CATALOG", testdrive.CatalogRetaining(t))
		testdrive.Exec(t, p.Admin(t), "SET GLOBAL event_scheduler = ON")
		for _, plan := range []string{"shared-small", "dedicated-small"} {
			t.Run(plan, func(t *testing.T) {
				i := p.OwnInstance(t, plan)
				i.Create(t, cf(nil), http.StatusCreated)
				b, app := i.Bound(t, nil)
				testdrive.Exec(t, app.Open(t), shop...)
				_, other := i.Bound(t, body{"parameters": body{"role": "admin"}})
				testdrive.Exec(t, other.Open(t), "CREATE VIEW total AS SELECT COUNT(*) AS n FROM names")
				was := shopContents(t, other)
				b.Unbind(t).Expect(t, http.StatusOK) // the other one goes with the instance

				i.Delete(t)
				i.Fetch(t).Expect(t, http.StatusNotFound)
				i.Deprovision(t, testdrive.Async).Expect(t, http.StatusGone)
				for _, c := range []testdrive.Credentials{app, other} {
					if plan == "shared-small" {
						testdrive.ExpectRefused(t, c.Fields(t))
					}
				}
				if plan == "shared-small" {
					expectNoTicks(t, p, app.Database)
				}
				expectHealthy(t, env)

				again := p.OwnInstance(t, plan)
				again.ID = i.ID // the id is free at once
				r := again.Provision(t, testdrive.Async, cf(body{"space_guid": "another", "parameters": body{"undelete": "shop"}}))
				refused := again.Provision(t, testdrive.Async, cf(body{"parameters": body{"undelete": "none"}}))
				for _, r := range []testdrive.Response{r.Expect(t, http.StatusBadRequest), refused.Expect(t, http.StatusBadRequest)} {
					assert.True(t, strings.Contains(r.String("description"), "There is no deleted service instance"),
						"refused with %s", r.Raw)
				}
				fields := cf(body{"parameters": body{"undelete": "shop"}})
				again.Create(t, fields, http.StatusCreated)
				again.Create(t, fields, http.StatusOK)

				_, now := again.Bound(t, body{"parameters": body{"role": "admin"}})
				db := now.Open(t)
				expectShop(t, now, was)
				assert.Equal(t, 3, testdrive.Read[int](t, db, "SELECT n FROM total"), "a view of an account that was never unbound")
				before := ticks(t, db, now.Database)
				testdrive.Eventually(t, "the event runs again", func() bool { return ticks(t, db, now.Database) > before })
				expectHealthy(t, env)

				// For those who must be sure.
				again.Update(t, testdrive.Async, body{"parameters": body{"keep_deleted_days": 3}}).Expect(t, http.StatusBadRequest)
				again.Update(t, testdrive.Async, body{"parameters": body{"keep_deleted_days": 0}}).Expect(t, http.StatusOK)
				again.Delete(t)
				expectNoDatabase(t, p, now.Database)
				testdrive.CheckNothingLeft(t, env["LAUNCHER_DIR"])
				i.Provision(t, testdrive.Async, cf(body{"parameters": body{"undelete": i.ID}})).Expect(t, http.StatusBadRequest)
			})
		}
	})
}

// cf adds what Cloud Foundry sends about an instance that is called shop.
func cf(fields body) body {
	all := body{"context": body{"platform": "cloudfoundry", "instance_name": "shop"}}
	maps.Copy(all, fields)
	return all
}

// expectNoTicks expects that the event has not run by when another one with its interval has run three times.
func expectNoTicks(t *testing.T, p testdrive.Platform, database string) {
	admin, clock := p.Admin(t), "clock_of_"+database
	before := ticks(t, admin, database)
	testdrive.Exec(t, admin, "CREATE DATABASE "+clock, "CREATE TABLE "+clock+".tick (n INT AUTO_INCREMENT PRIMARY KEY)",
		"CREATE EVENT "+clock+".ticking ON SCHEDULE EVERY 1 SECOND DO INSERT INTO "+clock+".tick () VALUES ()")
	testdrive.Eventually(t, "the other event runs", func() bool { return ticks(t, admin, clock) >= 3 })
	testdrive.Exec(t, admin, "DROP DATABASE "+clock)
	after := ticks(t, admin, database)
	assert.Equal(t, before, after, "the event of a deleted instance has run %d times", after-before)
}

// expectHealthy expects that the doctor finds nothing.
func expectHealthy(t *testing.T, env map[string]string) { testdrive.RunDoctor(t, env).Expect(t, 0) }

// awaitHealthy waits until the doctor finds nothing.
func awaitHealthy(t *testing.T, env map[string]string) {
	testdrive.Eventually(t, "the doctor finds nothing", func() bool {
		out := testdrive.RunDoctor(t, env)
		return out.Status == 0 && strings.HasPrefix(out.Stdout, "All is well.")
	})
}

// Of two undeletes at once, one gets the data. An operator drops them.
func TestRetainedData(t *testing.T) {
	p, env := testdrive.OnePlatform(t, "CATALOG", testdrive.CatalogRetaining(t))
	o := p.Operator(env)
	i := p.OwnInstance(t, "shared-small")
	i.Create(t, cf(nil), http.StatusCreated)
	_, app := i.Bound(t, nil)
	testdrive.Exec(t, app.Open(t), shop...)
	was := shopContents(t, app)
	i.Delete(t)
	all := o.Retained(t)
	require.True(t, len(all) == 1 && all[0].InstanceID == i.ID && all[0].Name == "shop" && all[0].AdoptedBy == "",
		"retained: %+v", all)

	back := cf(body{"parameters": body{"undelete": i.ID}})
	rivals := []testdrive.Instance{p.OwnInstance(t, "shared-small"), p.OwnInstance(t, "shared-large")}
	var asked []<-chan testdrive.Response
	for _, rival := range rivals {
		asked = append(asked, rival.Begin("PUT", rival.Path(), rival.ProvisionBody(back)))
	}
	var winner testdrive.Instance
	for n, answer := range asked {
		r := testdrive.Receive(t, answer, "the answer to an undelete")
		switch {
		case r.Status == http.StatusCreated && winner.ID == "":
			winner = rivals[n]
		case r.Status != http.StatusBadRequest || !strings.Contains(r.Raw, "just now") && !strings.Contains(r.Raw, "no deleted service instance"):
			t.Errorf("the other one: %d %s", r.Status, r.Raw)
		}
	}
	require.NotEmpty(t, winner.ID, "nobody got the data")
	_, app = winner.Bound(t, nil)
	expectShop(t, app, was)

	winner.Delete(t)
	all = o.Retained(t)
	require.Len(t, all, 1, "retained")
	// Its database is lost.
	testdrive.Exec(t, p.Admin(t), "DROP DATABASE `"+app.Database+"`")
	found := testdrive.RunDoctor(t, env).Expect(t, 1).Stdout
	assert.True(t, strings.Contains(found, "missing") && strings.Contains(found, "retained purge "+all[0].ID),
		"the doctor says %s", found)
	lost := rivals[0].Provision(t, testdrive.Sync, cf(body{"parameters": body{"undelete": winner.ID}}))
	assert.True(t, lost.Status >= 400 && strings.Contains(lost.String("description"), "not on its server any more"),
		"an undelete of what was lost: %d %s", lost.Status, lost.Raw)
	o.Refuse(t, "add --yes", "retained", "purge", all[0].ID)
	o.Run(t, 0, "retained", "purge", "--yes", all[0].ID)
	entries := o.Audit(t, "--action", "purge", "--instance", winner.ID)
	assert.True(t, len(entries) == 1 && entries[0].Object == all[0].ID && entries[0].Platform == "operator",
		"the purge is recorded as %+v", entries)
	testdrive.Eventually(t, "the data is dropped", func() bool { return len(o.Retained(t)) == 0 })
	expectNoDatabase(t, p, app.Database)
	rivals[0].Provision(t, testdrive.Sync, cf(body{"parameters": body{"undelete": winner.ID}})).Expect(t, http.StatusBadRequest)
	expectHealthy(t, env)
	var counted int
	testdrive.OpenTasks(t, env).Scan(t, &counted, "SELECT coalesce(sum(instances), 0) FROM server")
	assert.Equal(t, 0, counted, "the server is recorded to hold %d instances", counted)
}

// TestCleanupKeepsData runs the cleanup of a provision, from a restored PostgreSQL, on an instance that is in use. The
// cleanup must not delete the data.
func TestCleanupKeepsData(t *testing.T) {
	p, env := testdrive.OnePlatform(t)
	tasks, o := testdrive.OpenTasks(t, env), p.Operator(env)
	for name, c := range map[string]struct {
		plan   string
		before func(i testdrive.Instance, c testdrive.Credentials)
		why    string // in the task's last error
	}{
		"a database with a table": {"shared-async", func(_ testdrive.Instance, c testdrive.Credentials) {
			testdrive.Exec(t, c.Open(t), "CREATE TABLE kept (n INT)")
		}, "not empty"},
		"a server that was handed out": {"dedicated-small", func(testdrive.Instance, testdrive.Credentials) {}, "reported ready"},
		"a server with another password": {"dedicated-small", func(i testdrive.Instance, _ testdrive.Credentials) {
			tasks.Exec(t, "CREATE TABLE earlier AS SELECT id, admin_password FROM instance")
			testdrive.RotateAdmin(t, env, i.ID).Expect(t, 0)
			tasks.Exec(t, "UPDATE instance i SET admin_password = b.admin_password FROM earlier b WHERE b.id = i.id")
			marks, err := filepath.Glob(filepath.Join(env["LAUNCHER_DIR"], "instances", "*", "kept")) // that servers are in use
			require.True(t, err == nil && len(marks) == 1, "servers handed out: %q, %v", marks, err)
			require.NoError(t, os.Remove(marks[0]))
		}, "admin password"},
	} {
		t.Run(name, func(t *testing.T) {
			i := p.OwnInstance(t, c.plan)
			i.Await(t, i.BeginProvision(t))
			_, login := i.Bound(t, nil)
			c.before(i, login)
			tasks.Exec(t, "UPDATE task SET phase = 'cleanup' WHERE kind = 'provision' AND instance_id = $1", i.ID)
			task := tasks.RestoreBefore(t, i)
			i.AwaitFailure(t, task, "Do not delete it")
			assert.Contains(t, o.Run(t, 0, "tasks", task).Stdout, c.why, "the task is shown as")
			testdrive.ExpectLine(t, testdrive.RunDoctor(t, env).Expect(t, 1).Stdout, "kept", i.ID)
			login.Open(t)                          // its data is where it was
			if name == "a database with a table" { // an operator has it tried again, which makes a working instance
				o.Run(t, 0, "tasks", "retry", task)
				tasks.AwaitSuccess(t, i.ID)
				o.Refuse(t, `the state of the service instance is "ready"`, "tasks", "retry", task)
				_, again := i.Bound(t, nil)
				testdrive.Exec(t, again.Open(t), "INSERT INTO kept VALUES (1)")
			}

			// What the platform asks for is done, as ever.
			i.Remove(t)
			expectNoDatabase(t, p, login.Database)
			testdrive.CheckNothingLeft(t, env["LAUNCHER_DIR"])
		})
	}
}

func expectNoDatabase(t *testing.T, p testdrive.Platform, name string) {
	assert.False(t, testdrive.DatabaseExists(t, p, name), "%s is left", name)
}
