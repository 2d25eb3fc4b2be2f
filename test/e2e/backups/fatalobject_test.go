package backups

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A server ends whenever it is asked for a view, as some versions do at some views. It is asked once.
func TestServerThatEndsAtAView(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		server := testdrive.StartCrashable(t, s.Flavour)
		proxy := testdrive.NewProxy(t, server.Address())
		proxy.HideTLS()
		plain := server.MySQL
		plain.Port, plain.CA = proxy.Port(), ""
		env := testdrive.Environment(t, plain)
		env["BACKUP_STORE"] = "file://" + t.TempDir()
		p := testdrive.StartPlatform(t, plain, env)
		i := p.MakeOwn(t, "shared-small")
		_, c := i.Bound(t, nil)
		view := []string{"CREATE TABLE items (id INT)", "CREATE VIEW fatal AS SELECT id FROM items"}
		testdrive.Exec(t, c.Open(t), view...)

		expectRefused := func(of testdrive.Instance, operation, what string) {
			t.Helper()
			state, shown := of.AwaitOperation(t, of.ID, operation)
			says := shown[len(shown)-1]
			if state != "failed" || !strings.Contains(says, "the definition of the view fatal") || !strings.Contains(says, "Drop it") {
				t.Errorf("%s %s: %s", what, state, says)
			}
		}
		backUp := func() string { return i.BackUp(t).Expect(t, http.StatusAccepted).String("operation") }
		asked := proxy.HoldRequest("SHOW CREATE VIEW `fatal`")
		operation := backUp()
		testdrive.Receive(t, asked, "the server is asked for the view")
		server.Crash(t)()
		again := proxy.HoldRequest("SHOW CREATE VIEW `fatal`")
		expectRefused(i, operation, "the backup at which the server ended")
		expectRefused(i, backUp(), "another backup")
		clone := p.OwnInstance(t, "shared-small")
		expectRefused(clone, clone.Clone(t, i.ID, nil).Expect(t, http.StatusAccepted).String("operation"), "a clone")
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
