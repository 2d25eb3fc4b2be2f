package e2e

import (
	"net/http"
	"testing"

	"mysql-broker/test/testdrive"
)

var unbindScenarios = []scenario{
	{"unbind ends logins and sessions", testUnbind},
	{"unbind the definer of a view", testUnbindDefiner},
}

func testUnbind(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", nil)
	b, c := i.Bound(t, nil)
	busy := c.Open(t)
	ended := make(chan error, 1)
	go func() {
		_, err := busy.ExecContext(t.Context(), "SELECT SLEEP(600)")
		ended <- err
	}()
	testdrive.AwaitTrue(t, p.Admin(t), `SELECT EXISTS (SELECT 1 FROM information_schema.processlist
		WHERE user = ? AND info LIKE 'SELECT SLEEP%')`, c.Username)

	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
	if err := testdrive.Receive(t, ended, "the running query ends"); err == nil {
		t.Error("the running query went on to its end")
	}
	testdrive.ExpectRefused(t, c.Fields(t))
	if testdrive.AccountExists(t, p, c.Username) {
		t.Error("the account is still there")
	}
	b.Fetch(t).Expect(t, http.StatusNotFound)
	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusGone)
}

// Views and routines run in the name of the account that made them, and must outlive its binding.
func testUnbindDefiner(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", nil)
	definer, definerLogin := i.Bound(t, nil)
	testdrive.UseAsApplication(t, definerLogin)
	testdrive.ExpectEmpty(t, definer.Unbind(t), http.StatusOK)
	testdrive.ExpectRefused(t, definerLogin.Fields(t))

	_, c := i.Bound(t, nil)
	db := c.Open(t)
	testdrive.Exec(t, db, "CALL add_fruit('apple pie')")
	if got := testdrive.Read[int](t, db, "SELECT COUNT(*) FROM apples"); got != 3 {
		t.Errorf("the view shows %d rows", got)
	}
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
	if testdrive.AccountExists(t, p, definerLogin.Username) {
		t.Error("the definer's account outlived the instance")
	}
}
