package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mysql-broker/test/testdrive"
)

// cloudFoundry is the context of requests from one space.
var cloudFoundry = body{"platform": "cloudfoundry", "organization_guid": "an-organization", "space_guid": "a-space"}

// cloneable provisions an instance with a table, a view, a routine and a trigger.
func (p platform) cloneable(t *testing.T, plan string) (instance, credentials) {
	t.Helper()
	i := p.provisioned(t, plan, body{"context": cloudFoundry})
	return i, makeObjects(t, i)
}

// makeObjects makes these in an instance.
func makeObjects(t *testing.T, i instance) credentials {
	t.Helper()
	_, c := i.bound(t, nil)
	makeObjectsAs(t, c)
	return c
}

func makeObjectsAs(t *testing.T, c credentials) {
	t.Helper()
	exec(t, c.open(t), "CREATE TABLE items (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))",
		"INSERT INTO items (name) VALUES ('one'), ('two')", "CREATE VIEW names AS SELECT name FROM items",
		"CREATE PROCEDURE add_item() INSERT INTO items (name) VALUES ('added')",
		"CREATE TRIGGER loud BEFORE INSERT ON items FOR EACH ROW SET NEW.name = UPPER(NEW.name)")
}

// clone begins to copy an instance.
func (i instance) clone(t *testing.T, of string, fields body) testdrive.Response {
	t.Helper()
	all := body{"context": cloudFoundry, "parameters": body{"clone_from": of}}
	for name, value := range fields {
		all[name] = value
	}
	return i.provision(t, later, all)
}

// expectClone uses a copy of a cloneable instance.
func expectClone(t *testing.T, i instance) {
	t.Helper()
	b, c := i.bound(t, nil)
	db := c.open(t)
	exec(t, db, "CALL add_item()")
	if got := readAll(t, db, "SELECT name FROM names ORDER BY name"); !slices.Equal(got, []string{"ADDED", "one", "two"}) {
		t.Errorf("the copy has %q", got)
	}
	if marks := readAll(t, db, "SHOW TABLES LIKE 'unfinished%'"); len(marks) != 0 {
		t.Errorf("the copy has the tables %q", marks)
	}
	b.unbind(t)
}

// accountsOf lists the accounts that were granted something on the database of credentials.
func accountsOf(t *testing.T, p platform, c credentials) []string {
	t.Helper()
	return readAll(t, p.admin(t), "SELECT user FROM mysql.db WHERE db = '"+strings.ReplaceAll(c.Database, "_", `\\_`)+"'")
}

// TestClone copies instances of each kind of plan to each kind.
func TestClone(t *testing.T) {
	eachPlatform(t, func(t *testing.T, p platform, _ map[string]string) {
		shared, c := p.cloneable(t, "shared-small")
		copied := p.newInstance(t, "shared-small")
		expectError(t, copied.provision(t, now, body{"context": cloudFoundry, "parameters": body{"clone_from": shared.id}}),
			"AsyncRequired")
		w := startWriter(t, c)
		operation := copied.clone(t, shared.id, nil).Expect(t, http.StatusAccepted).String("operation")
		copied.await(t, operation)
		w.goesOn(t)
		copied.clone(t, shared.id, nil).Expect(t, http.StatusOK)
		expectClone(t, copied)
		own := p.newInstance(t, "dedicated-small")
		own.await(t, own.clone(t, shared.id, nil).Expect(t, http.StatusAccepted).String("operation"))
		expectClone(t, own)
		if all := accountsOf(t, p, c); len(all) != 1 {
			t.Errorf("the source has the accounts %q", all)
		}
		back, ownCopy := p.newInstance(t, "shared-large"), p.newInstance(t, "dedicated-small")
		for _, i := range []instance{back, ownCopy} {
			if i.id == ownCopy.id { // shared plans allow no events
				_, c := own.bound(t, nil)
				exec(t, c.open(t), "CREATE EVENT tick ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' DO DELETE FROM items")
			}
			fields := body{"parameters": body{"clone_from": own.id,
				"bootstrap": "LOCK TABLES items WRITE; DELETE FROM items WHERE name = 'ADDED';"}}
			i.await(t, i.clone(t, own.id, fields).Expect(t, http.StatusAccepted).String("operation"))
			expectClone(t, i)
		}
		shared.deprovision(t, now).Expect(t, http.StatusOK) // the copies do not depend on it
		expectIndependent(t, copied)
	})
}

// expectIndependent uses the routine of a copy whose source is gone.
func expectIndependent(t *testing.T, i instance) {
	t.Helper()
	_, c := i.bound(t, nil)
	exec(t, c.open(t), "CALL add_item()")
}

// TestCloneRefused asks for copies of what is not there, or not in the same space.
func TestCloneRefused(t *testing.T) {
	onePlatform(t, func(t *testing.T, p platform, _ map[string]string) {
		source, _ := p.cloneable(t, "shared-small")
		nowhere, missing := p.provisioned(t, "shared-small", nil), uuid.NewString()
		i := p.newInstance(t, "shared-small")
		for name, r := range map[string]testdrive.Response{
			"missing":              i.clone(t, missing, nil),
			"itself":               i.clone(t, i.id, nil),
			"another space":        i.clone(t, source.id, body{"space_guid": "another-space"}),
			"another organization": i.clone(t, source.id, body{"organization_guid": "another-organization"}),
			"another platform":     i.clone(t, source.id, body{"context": body{"platform": "other"}}),
			"no context":           i.clone(t, source.id, body{"context": nil}),
			"of no context":        i.clone(t, nowhere.id, nil),
		} {
			of := source.id
			switch name {
			case "missing":
				of = missing
			case "itself":
				of = i.id
			case "of no context":
				of = nowhere.id
			}
			expectRefusal(t, r, 400)
			if want := fmt.Sprintf("There is no service instance %s in this space.", of); r.String("description") != want {
				t.Errorf("%s: %q", name, r.String("description"))
			}
		}
	})
}

// testBootstrapProgress holds up the SQL that follows a copy, until users read what is done.
func testBootstrapProgress(t *testing.T, p platform) {
	t.Helper()
	source, _ := p.cloneable(t, "shared-small")
	i := p.newInstance(t, "shared-small")
	holder, err := p.admin(t).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	lock := func(do string) {
		t.Helper()
		if _, err := holder.ExecContext(t.Context(), "DO "+do); err != nil {
			t.Fatal(err)
		}
	}
	lock("GET_LOCK('" + i.id + "', 0)")
	operation := i.clone(t, source.id, body{"parameters": body{"clone_from": source.id,
		"bootstrap": "DO GET_LOCK('" + i.id + "', 600)"}}).Expect(t, http.StatusAccepted).String("operation")
	testdrive.Eventually(t, testdrive.Patience, "users read that the SQL runs", func() bool {
		says := i.poll(t, "?operation="+operation).String("description")
		return strings.HasPrefix(says, "Running the SQL of the parameter bootstrap")
	})
	lock("RELEASE_LOCK('" + i.id + "')")
	i.await(t, operation)
}

// TestBootstrap runs SQL in new databases.
func TestBootstrap(t *testing.T) {
	eachPlatform(t, func(t *testing.T, p platform, _ map[string]string) {
		i := p.newInstance(t, "shared-small")
		expectError(t, i.provision(t, now, body{"parameters": body{"bootstrap": "SELECT 1"}}), "AsyncRequired")
		i.await(t, i.provision(t, later, body{"parameters": body{"bootstrap": "CREATE TABLE t (s VARCHAR(20)); -- a; comment\n" +
			"INSERT INTO t VALUES ('a;b');\nDELIMITER //\nCREATE PROCEDURE p() BEGIN DELETE FROM t; INSERT INTO t VALUES ('p'); END//\n" +
			"DELIMITER ;\nCALL p()"}}).Expect(t, http.StatusAccepted).String("operation"))
		_, c := i.bound(t, nil)
		if got := readAll(t, c.open(t), "SELECT s FROM t"); !slices.Equal(got, []string{"p"}) {
			t.Errorf("the table has %q", got)
		}
		exec(t, c.open(t), "CALL p()")
		testBootstrapProgress(t, p)
		failing := p.newInstance(t, "shared-small")
		const secret = "not-for-the-log"
		state, shown := failing.AwaitOperation(t, failing.id, failing.provision(t, later, body{"parameters": body{
			"bootstrap": "CREATE TABLE t (id INT); CREATE VIEW v AS SELECT * FROM mysql." + secret}}).
			Expect(t, http.StatusAccepted).String("operation"))
		if says := shown[len(shown)-1]; state != "failed" || !strings.Contains(says, "Statement 2") ||
			!strings.Contains(says, "CREATE VIEW") {
			t.Errorf("%s after %q", state, shown)
		}
		if strings.Contains(p.Log(), secret) {
			t.Error("the log quotes the parameter")
		}
	})
}
