package quota_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Events run without connections, so limits of connections do not bound them. Only plans that say so have them. A change
// of plan grants or revokes EVENT, of kept accounts too, and so does the guard where a release before this one gave it.
func TestEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testdrive.Private(t, servers.Any(t).Flavour))
	i := f.Provision(small)
	definer, admin := f.bind(i, plan.ReadWrite), f.bind(i, plan.Admin)
	testdrive.Exec(t, definer.DB, "CREATE TABLE ticks (id INT AUTO_INCREMENT PRIMARY KEY)")
	const tick = "CREATE EVENT tick ON SCHEDULE EVERY 1 SECOND DO INSERT INTO ticks () VALUES ()"
	refused := func(a account) {
		db := a.login.Open(t)
		for _, statement := range []string{tick, "ALTER EVENT tick DISABLE", "DROP EVENT tick"} {
			assert.EqualValues(t, testdrive.DeniedInAll, testdrive.RefusalOf(t, db, statement), "%s: error", statement)
		}
	}
	may := func(a account) bool {
		return testdrive.Read[bool](t, f.Root, `SELECT EXISTS (SELECT 1 FROM information_schema.schema_privileges
			WHERE privilege_type = 'EVENT' AND grantee = CONCAT('\'', ?, '\'@\'%\''))`, a.login.Username)
	}
	refused(definer)
	refused(admin)

	f.update(i, eventful)
	testdrive.Exec(t, definer.login.Open(t), tick)
	testdrive.Exec(t, admin.login.Open(t), "CREATE EVENT other ON SCHEDULE EVERY 1 DAY DO DELETE FROM ticks", "DROP EVENT other")
	f.Must(f.Broker.Unbind(t.Context(), bindings.UnbindRequest{InstanceID: i.ID, BindingID: definer.id})) // the account stays
	seen := testdrive.Read[int](t, f.Root, "SELECT COUNT(*) FROM `"+i.Database+"`.ticks")
	testdrive.AwaitTrue(t, f.Root, "SELECT COUNT(*) > ? FROM `"+i.Database+"`.ticks", seen+1) // one may have been under way

	f.update(i, small)
	refused(admin)
	assert.False(t, may(definer) || may(admin), "an account may make events in a plan without")

	testdrive.Exec(t, f.Root, "GRANT EVENT ON `"+strings.ReplaceAll(i.Database, "_", `\_`)+"`.* TO "+admin.login.Username)
	testdrive.OpenTasks(t, f.Env).Exec(t, "UPDATE binding SET events = NULL")
	f.guard()
	testdrive.Eventually(t, "the privilege is taken", func() bool { return !may(admin) })
	refused(admin)
}
