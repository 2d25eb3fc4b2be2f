package backups

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// PostgreSQL is put back as it was after a move, and as it was before: each time, applications use the data where they
// are, with the accounts that they have.
func TestRecoverMoved(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	p := testdrive.StartPlatform(t, s, env)
	i := p.OwnInstance(t, "shared-small")
	i.Create(t, nil, http.StatusCreated)
	b, app := i.Bound(t, nil)
	testdrive.Exec(t, app.Open(t), "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	testdrive.StopBroker(t, p) // the servers get their lists
	before := testdrive.DumpPostgres(t, env["DATABASE_URL"])
	p = testdrive.StartPlatform(t, s, env)
	i, b = i.Via(p), testdrive.Binding{Instance: i.Via(p), BindingID: b.BindingID}
	i.Await(t, i.UpdatePlan(t, testdrive.Async, "dedicated-small").String("operation"))
	moved := i.Credentials(t, b.Fetch(t))
	testdrive.Exec(t, moved.Open(t), "INSERT INTO t VALUES (2)")
	after := testdrive.DumpPostgres(t, env["DATABASE_URL"])

	for _, restored := range []struct{ name, backup string }{{"before", before}, {"after", after}} {
		name := restored.name
		p.Kill(t) // so that nothing was recorded beside the servers after the move
		testdrive.RestorePostgres(t, env["DATABASE_URL"], restored.backup)
		p = testdrive.StartPlatform(t, s, env)
		testdrive.ExpectHeld(t, p, "loaded from a dump")
		shown := testdrive.RunRecover(t, env, 0)
		if adopts := strings.Contains(shown, "place"); adopts != (name == "before") || strings.Contains(shown, "shut") ||
			strings.Contains(shown, "forget") {
			t.Errorf("after the dump of %s the move:\n%s", name, shown)
		}
		testdrive.RunRecover(t, env, 0, "--apply")
		again := testdrive.Binding{Instance: i.Via(p), BindingID: b.BindingID}
		c := again.Credentials(t, again.Fetch(t))
		if c.Port != moved.Port || c.Username != app.Username {
			t.Errorf("after the dump of %s the move, the binding has %s:%d, want %d", name, c.Username, c.Port, moved.Port)
		}
		testdrive.Exec(t, c.Open(t), "INSERT INTO t SELECT MAX(id) + 1 FROM t")
		expectHealthy(t, env)
	}
}
