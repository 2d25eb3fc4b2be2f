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

func testUnbind(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	b, c := i.bound(t, nil)
	busy := c.open(t)
	ended := make(chan error, 1)
	go func() {
		_, err := busy.ExecContext(t.Context(), "SELECT SLEEP(600)")
		ended <- err
	}()
	awaitTrue(t, p.admin(t), `SELECT EXISTS (SELECT 1 FROM information_schema.processlist
		WHERE user = ? AND info LIKE 'SELECT SLEEP%')`, c.Username)

	expectEmpty(t, b.unbind(t), http.StatusOK)
	if err := testdrive.Receive(t, ended, "the running query ends"); err == nil {
		t.Error("the running query went on to its end")
	}
	expectRefused(t, c.fields(t))
	if accountExists(t, p, c.Username) {
		t.Error("the account is still there")
	}
	b.fetch(t).Expect(t, http.StatusNotFound)
	expectEmpty(t, b.unbind(t), http.StatusGone)
}

func accountExists(t *testing.T, p platform, name string) bool {
	t.Helper()
	return read[bool](t, p.admin(t), "SELECT EXISTS (SELECT 1 FROM mysql.user WHERE user = ?)", name)
}

// Views and routines run in the name of the account that made them, and must outlive its binding.
func testUnbindDefiner(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	definer, definerLogin := i.bound(t, nil)
	useAsApplication(t, definerLogin)
	expectEmpty(t, definer.unbind(t), http.StatusOK)
	expectRefused(t, definerLogin.fields(t))

	_, c := i.bound(t, nil)
	db := c.open(t)
	exec(t, db, "CALL add_fruit('apple pie')")
	if got := read[int](t, db, "SELECT COUNT(*) FROM apples"); got != 3 {
		t.Errorf("the view shows %d rows", got)
	}
	expectEmpty(t, i.deprovision(t, now), http.StatusOK)
	if accountExists(t, p, definerLogin.Username) {
		t.Error("the definer's account outlived the instance")
	}
}
