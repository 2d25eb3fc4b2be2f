package e2e

import (
	"net/http"
	"testing"

	"mysql-broker/test/testdrive"
)

var deprovisionScenarios = []scenario{
	{"deprovision with bindings left", testDeprovision},
	{"deprovision and provision again", testReuseOfID},
}

func testDeprovision(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", nil)
	b, c := i.Bound(t, nil)
	testdrive.UseAsApplication(t, c)
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
	testdrive.ExpectRefused(t, c.Fields(t))
	testdrive.ExpectNothingLeft(t, p, c.Database, c.Username)
	i.Fetch(t).Expect(t, http.StatusNotFound)
	b.Fetch(t).Expect(t, http.StatusNotFound)
	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusGone)
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusGone)
	b.Bind(t, nil).Expect(t, http.StatusNotFound)
	i.UpdatePlan(t, testdrive.Sync, "shared-large").Expect(t, http.StatusNotFound)
}

func testReuseOfID(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", nil)
	b, c := i.Bound(t, nil)
	testdrive.Exec(t, c.Open(t), "CREATE TABLE fruit (name TEXT)")
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)

	testdrive.ExpectEmpty(t, i.Provision(t, testdrive.Sync, nil), http.StatusCreated)
	c = i.Credentials(t, b.Bind(t, nil).Expect(t, http.StatusCreated))
	n := testdrive.Read[int](t, c.Open(t), "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()")
	if n != 0 {
		t.Errorf("the new instance has %d tables", n)
	}
}
