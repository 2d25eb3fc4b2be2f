package operators

import (
	"database/sql"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Events run without connections, so limits of connections do not bound them. Only plans that say
// so have them. A change of plan grants or revokes EVENT, of kept accounts too, and so does an upgrade of the broker.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := testdrive.Environment(t, private)
	env["CATALOG"] = catalogWithEvents(t, "shared-large")
	env["QUOTA_INTERVAL"] = testdrive.QuotaInterval.String()
	p := testdrive.StartPlatform(t, private, env)
	i := p.MakeOwn(t, "shared-small")
	definer, definerLogin := i.Bound(t, nil)
	_, admin := i.Bound(t, body{"parameters": body{"role": "admin"}})
	db := definerLogin.Open(t)
	testdrive.Exec(t, db, "CREATE TABLE ticks (id INT AUTO_INCREMENT PRIMARY KEY)")
	expectNoEvents(t, db, admin.Open(t))

	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)
	testdrive.Exec(t, definerLogin.Open(t), createTick)
	testdrive.Exec(t, admin.Open(t), "CREATE EVENT other ON SCHEDULE EVERY 1 DAY DO DELETE FROM ticks", "DROP EVENT other")
	testdrive.ExpectEmpty(t, definer.Unbind(t), http.StatusOK)
	testdrive.ExpectRefused(t, definerLogin.Fields(t))
	_, c := i.Bound(t, body{"parameters": body{"role": "read-only"}})
	reader := c.Open(t)
	seen := testdrive.Read[int](t, reader, "SELECT COUNT(*) FROM ticks")
	testdrive.AwaitTrue(t, reader, "SELECT COUNT(*) > ? FROM ticks", seen+1) // one may have been under way

	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusOK)
	expectNoEvents(t, admin.Open(t))
	root := p.Admin(t)
	for _, account := range []string{definerLogin.Username, admin.Username} {
		if mayMakeEvents(t, root, account) {
			t.Errorf("account %s may make events in a plan without", account)
		}
	}

	// What a release before this one gave is taken.
	testdrive.Exec(t, root, "GRANT EVENT ON `"+strings.ReplaceAll(c.Database, "_", `\_`)+"`.* TO "+admin.Username)
	p.Signal(t, syscall.SIGTERM)
	p.Wait(t)
	testdrive.OpenTasks(t, env).Exec(t, "UPDATE binding SET events = NULL")
	testdrive.StartPlatform(t, private, env)
	testdrive.Eventually(t, testdrive.QuotaTime, "the privilege is taken", func() bool {
		return !mayMakeEvents(t, root, admin.Username)
	})
	expectNoEvents(t, admin.Open(t))
}

const createTick = "CREATE EVENT tick ON SCHEDULE EVERY 1 SECOND DO INSERT INTO ticks () VALUES ()"

// expectNoEvents fails the test unless the server refuses events with its own error for want of a privilege.
func expectNoEvents(t *testing.T, all ...*sql.DB) {
	t.Helper()
	for _, db := range all {
		for _, statement := range []string{createTick, "ALTER EVENT tick DISABLE", "DROP EVENT tick"} {
			if number := testdrive.RefusalOf(t, db, statement); number != testdrive.DeniedInAll {
				t.Errorf("%s: error %d, want %d", statement, number, testdrive.DeniedInAll)
			}
		}
	}
}

func mayMakeEvents(t *testing.T, root *sql.DB, account string) bool {
	t.Helper()
	return testdrive.Read[bool](t, root, `SELECT EXISTS (SELECT 1 FROM information_schema.schema_privileges
		WHERE privilege_type = 'EVENT' AND grantee = CONCAT('\'', ?, '\'@\'%\''))`, account)
}

func catalogWithEvents(t *testing.T, plan string) (path string) {
	t.Helper()
	return testdrive.EditedCatalog(t, testdrive.InPlan(plan, "max_bindings:", "events: true, max_bindings:"))
}
