package e2e

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
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		env["CATALOG"] = catalogWithEvents(t, "shared-large")
		env["QUOTA_INTERVAL"] = quotaInterval.String()
		p := startPlatform(t, private, env)
		i := p.makeOwn(t, "shared-small")
		definer, definerLogin := i.bound(t, nil)
		_, admin := i.bound(t, body{"parameters": body{"role": "admin"}})
		db := definerLogin.open(t)
		exec(t, db, "CREATE TABLE ticks (id INT AUTO_INCREMENT PRIMARY KEY)")
		expectNoEvents(t, db, admin.open(t))

		expectEmpty(t, i.updatePlan(t, now, "shared-large"), http.StatusOK)
		exec(t, definerLogin.open(t), createTick)
		exec(t, admin.open(t), "CREATE EVENT other ON SCHEDULE EVERY 1 DAY DO DELETE FROM ticks", "DROP EVENT other")
		expectEmpty(t, definer.unbind(t), http.StatusOK)
		expectRefused(t, definerLogin.fields(t))
		_, c := i.bound(t, body{"parameters": body{"role": "read-only"}})
		reader := c.open(t)
		seen := read[int](t, reader, "SELECT COUNT(*) FROM ticks")
		awaitTrue(t, reader, "SELECT COUNT(*) > ? FROM ticks", seen+1) // one may have been under way

		expectEmpty(t, i.updatePlan(t, now, "shared-small"), http.StatusOK)
		expectNoEvents(t, admin.open(t))
		root := p.admin(t)
		for _, account := range []string{definerLogin.Username, admin.Username} {
			if mayMakeEvents(t, root, account) {
				t.Errorf("account %s may make events in a plan without", account)
			}
		}

		// What a release before this one gave is taken.
		exec(t, root, "GRANT EVENT ON `"+strings.ReplaceAll(c.Database, "_", `\_`)+"`.* TO "+admin.Username)
		p.Signal(t, syscall.SIGTERM)
		p.Wait(t)
		if _, err := postgres(t, env).Exec(t.Context(), "UPDATE binding SET events = NULL"); err != nil {
			t.Fatal(err)
		}
		startPlatform(t, private, env)
		testdrive.Eventually(t, quotaTime, "the privilege is taken", func() bool {
			return !mayMakeEvents(t, root, admin.Username)
		})
		expectNoEvents(t, admin.open(t))
	})
}

const createTick = "CREATE EVENT tick ON SCHEDULE EVERY 1 SECOND DO INSERT INTO ticks () VALUES ()"

// expectNoEvents fails the test unless the server refuses events with its own error for want of a privilege.
func expectNoEvents(t *testing.T, all ...*sql.DB) {
	t.Helper()
	for _, db := range all {
		for _, statement := range []string{createTick, "ALTER EVENT tick DISABLE", "DROP EVENT tick"} {
			if number := refusal(t, db, statement); number != deniedInAll {
				t.Errorf("%s: error %d, want %d", statement, number, deniedInAll)
			}
		}
	}
}

func mayMakeEvents(t *testing.T, root *sql.DB, account string) bool {
	t.Helper()
	return read[bool](t, root, `SELECT EXISTS (SELECT 1 FROM information_schema.schema_privileges
		WHERE privilege_type = 'EVENT' AND grantee = CONCAT('\'', ?, '\'@\'%\''))`, account)
}
