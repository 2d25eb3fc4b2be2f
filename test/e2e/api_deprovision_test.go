package e2e

import (
	"net/http"
	"testing"
)

var deprovisionScenarios = []scenario{
	{"deprovision with bindings left", testDeprovision},
	{"deprovision and provision again", testReuseOfID},
	{"deprovision what does not fit the catalog", testDeprovisionInvalid},
}

func testDeprovision(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	b, c := i.bound(t, nil)
	useAsApplication(t, c)
	expectEmpty(t, i.deprovision(t, now), http.StatusOK)
	expectRefused(t, c.fields(t))
	if databaseExists(t, p, c.Database) {
		t.Error("the database is still there")
	}
	if accountExists(t, p, c.Username) {
		t.Error("the account is still there")
	}
	i.fetch(t).Expect(t, http.StatusNotFound)
	b.fetch(t).Expect(t, http.StatusNotFound)
	expectEmpty(t, b.unbind(t), http.StatusGone)
	expectEmpty(t, i.deprovision(t, now), http.StatusGone)
	b.bind(t, nil).Expect(t, http.StatusNotFound)
	i.updatePlan(t, now, "shared-large").Expect(t, http.StatusNotFound)
}

func databaseExists(t *testing.T, p platform, name string) bool {
	t.Helper()
	return read[bool](t, p.admin(t),
		"SELECT EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = ?)", name)
}

func testReuseOfID(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	b, c := i.bound(t, nil)
	exec(t, c.open(t), "CREATE TABLE fruit (name TEXT)")
	expectEmpty(t, i.deprovision(t, now), http.StatusOK)

	expectEmpty(t, i.provision(t, now, nil), http.StatusCreated)
	c = i.credentials(t, b.bind(t, nil).Expect(t, http.StatusCreated))
	n := read[int](t, c.open(t), "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()")
	if n != 0 {
		t.Errorf("the new instance has %d tables", n)
	}
}

func testDeprovisionInvalid(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	for _, query := range []string{"", "?service_id=" + i.serviceID, "?plan_id=" + i.planID,
		"?service_id=no-such-service&plan_id=" + i.planID, "?plan_id=no-such-plan&service_id=" + i.serviceID} {
		expectRefusal(t, i.Do(t, "DELETE", i.path()+query, nil), 400)
	}
	i.fetch(t).Expect(t, http.StatusOK)
}
