package e2e

import (
	"net/http"
	"testing"

	"mysql-broker/test/testdrive"
)

var unbindScenarios = []scenario{{"unbind ends logins and sessions", testUnbind}}

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
