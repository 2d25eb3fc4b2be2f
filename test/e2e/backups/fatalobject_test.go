package backups

import (
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

		refused := []string{"the definition of the view fatal", "Drop it"}
		backUp := func() string { return i.BackUp(t).Operation(t) }
		asked := proxy.HoldRequest("SHOW CREATE VIEW `fatal`")
		operation := backUp()
		testdrive.Receive(t, asked, "the server is asked for the view")
		server.Crash(t)()
		again := proxy.HoldRequest("SHOW CREATE VIEW `fatal`")
		i.AwaitFailure(t, operation, refused...)
		i.AwaitFailure(t, backUp(), refused...)
		clone := p.OwnInstance(t, "shared-small")
		clone.AwaitFailure(t, clone.Clone(t, i.ID, nil).Operation(t), refused...)
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
