package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/testdrive"
)

var updateScenarios = []scenario{
	{"update between shared plans", testUpdate},
}

func testUpdate(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", body{"parameters": body{"charset": "latin1"}})
	_, before := i.Bound(t, nil)
	admin := p.Admin(t)
	testdrive.ExpectConnectionLimit(t, admin, before.Username, 30)

	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)
	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Async, "shared-large"), http.StatusOK)
	testdrive.ExpectConnectionLimit(t, admin, before.Username, 60)
	_, after := i.Bound(t, nil)
	testdrive.ExpectConnectionLimit(t, admin, after.Username, 60)
	r := i.Fetch(t).Expect(t, http.StatusOK)
	assert.True(t, r.String("plan_id") != i.PlanID && testdrive.Field(r.Body, "parameters", "charset") == "latin1" &&
		testdrive.Field(r.Body, "maintenance_info", "version") == "1.0.0", "the instance is now %s", r.Raw)

	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusOK)
	testdrive.ExpectConnectionLimit(t, admin, before.Username, 30)
	testdrive.ExpectConnectionLimit(t, admin, after.Username, 30)
	testdrive.ExpectEmpty(t, i.Update(t, testdrive.Async, body{"parameters": body{}}), http.StatusOK)
	testdrive.ExpectEmpty(t, i.Update(t, testdrive.Sync, body{"plan_id": i.PlanID, "context": body{"instance_name": "renamed"}}),
		http.StatusOK)
}
