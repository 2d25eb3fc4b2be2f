package e2e

import (
	"database/sql"
	"net/http"
	"testing"
)

var updateScenarios = []scenario{
	{"update between shared plans", testUpdate},
	{"update to a plan that is too small", testUpdateTooMuchData},
	{"update nothing", testUpdateNothing},
	{"update what cannot be changed", testUpdateInvalid},
}

func testUpdate(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", body{"parameters": body{"charset": "latin1"}})
	_, before := i.bound(t, nil)
	admin := p.admin(t)
	expectConnectionLimit(t, admin, before.Username, 30)

	expectEmpty(t, i.updatePlan(t, now, "shared-large"), http.StatusOK)
	expectEmpty(t, i.updatePlan(t, later, "shared-large"), http.StatusOK)
	expectConnectionLimit(t, admin, before.Username, 60)
	_, after := i.bound(t, nil)
	expectConnectionLimit(t, admin, after.Username, 60)
	r := i.fetch(t).Expect(t, http.StatusOK)
	if r.String("plan_id") == i.planID || field(r.Body, "parameters", "charset") != "latin1" {
		t.Errorf("the instance is now %s", r.Raw)
	}

	expectEmpty(t, i.updatePlan(t, now, "shared-small"), http.StatusOK)
	expectConnectionLimit(t, admin, before.Username, 30)
	expectConnectionLimit(t, admin, after.Username, 30)
}

func expectConnectionLimit(t *testing.T, admin *sql.DB, account string, want int) {
	t.Helper()
	if got := read[int](t, admin, "SELECT max_user_connections FROM mysql.user WHERE user = ?", account); got != want {
		t.Errorf("the account may open %d connections instead of %d", got, want)
	}
}

func testUpdateTooMuchData(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-large", nil)
	_, c := i.bound(t, nil)
	db := c.open(t)
	exec(t, db, "CREATE TABLE filler (content LONGBLOB)")
	for range 26 {
		exec(t, db, "INSERT INTO filler VALUES (REPEAT('x', 4 << 20))")
	}
	expectError(t, i.updatePlan(t, now, "shared-small"), "PlanChangeNotSupported",
		"shared-small", "100 MiB", "holds 1")
	if r := i.fetch(t); r.String("plan_id") != i.planID {
		t.Errorf("the refused update changed the plan: %s", r.Raw)
	}
	exec(t, db, "DROP TABLE filler")
	expectEmpty(t, i.updatePlan(t, now, "shared-small"), http.StatusOK)
}

func testUpdateNothing(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	expectEmpty(t, i.update(t, now, nil), http.StatusOK)
	expectEmpty(t, i.update(t, later, body{"parameters": body{}}), http.StatusOK)
	expectEmpty(t, i.update(t, now, body{"plan_id": i.planID, "context": body{"instance_name": "renamed"}}),
		http.StatusOK)
}

func testUpdateInvalid(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	expectRefusal(t, i.update(t, now, body{"parameters": body{"charset": "latin1"}}), 400, "charset")
	expectRefusal(t, i.update(t, now, body{"plan_id": "no-such-plan"}), 400)
	expectRefusal(t, i.update(t, now, body{"service_id": "no-such-service"}), 400)
	expectRefusal(t, i.Do(t, "PATCH", i.path(), body{"plan_id": i.planID}), 400)
	p.newInstance(t, "shared-small").updatePlan(t, now, "shared-large").Expect(t, http.StatusNotFound)
}
