package backups

import (
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/limits"
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
	t.Helper()
	return slices.DeleteFunc(testdrive.Contents(t, c), func(line string) bool {
		return strings.HasPrefix(line, "checksum tick ")
	})
}

// expectShop fails the test unless the shop has these contents, and the accounts that define its objects may use them.
func expectShop(t *testing.T, c testdrive.Credentials, was []string) {
	t.Helper()
	is := shopContents(t, c)
	assert.True(t, slices.Equal(is, was), "before:\n%s\nafter:\n%s", strings.Join(was, "\n"), strings.Join(is, "\n"))
	testdrive.Exec(t, c.Open(t), "SELECT * FROM long_names", "CALL greet()", "INSERT INTO customer (id, name) VALUES (3, 'new')")
}

// ticks counts how often the shop's event has run.
func ticks(t *testing.T, db *sql.DB, database string) int {
	t.Helper()
	return testdrive.Read[int](t, db, fmt.Sprintf("SELECT COUNT(*) FROM `%s`.tick", database))
}

// An instance is deleted, and comes back as another one, with all that it held. Meanwhile nobody has access, and
// nothing runs.
func TestUndelete(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		env["CATALOG"] = testdrive.CatalogRetaining(t)
		p := testdrive.StartPlatform(t, s, env)
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
				testdrive.Eventually(t, testdrive.TakeoverTime, "the event runs again", func() bool {
					return ticks(t, db, now.Database) > before
				})
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
	t.Helper()
	admin, clock := p.Admin(t), "clock_of_"+database
	before := ticks(t, admin, database)
	testdrive.Exec(t, admin, "CREATE DATABASE "+clock, "CREATE TABLE "+clock+".tick (n INT AUTO_INCREMENT PRIMARY KEY)",
		"CREATE EVENT "+clock+".ticking ON SCHEDULE EVERY 1 SECOND DO INSERT INTO "+clock+".tick () VALUES ()")
	testdrive.Eventually(t, limits.Stuck, "the other event runs", func() bool { return ticks(t, admin, clock) >= 3 })
	testdrive.Exec(t, admin, "DROP DATABASE "+clock)
	after := ticks(t, admin, database)
	assert.Equal(t, before, after, "the event of a deleted instance has run %d times", after-before)
}

// expectHealthy expects that the doctor finds nothing.
func expectHealthy(t *testing.T, env map[string]string) {
	t.Helper()
	testdrive.RunDoctor(t, env).Expect(t, 0)
}
