package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/testdrive"
)

var provisionScenarios = []scenario{
	{"provision and repeat", testProvisionTwice},
	{"provision with charset and collation", testCharset},
	{"deprovision with bindings left", testDeprovision},
}

func testProvisionTwice(t *testing.T, p testdrive.Platform) {
	i := p.NewInstance(t, "shared-small")
	i.Fetch(t).Expect(t, http.StatusNotFound)
	testdrive.ExpectEmpty(t, i.Provision(t, testdrive.Sync, nil), http.StatusCreated)
	testdrive.ExpectEmpty(t, i.Provision(t, testdrive.Sync, nil), http.StatusOK)
	testdrive.ExpectEmpty(t, i.Provision(t, testdrive.Async, body{"parameters": body{}}), http.StatusOK)

	_, otherPlan := testdrive.Plan(t, "shared-large")
	for name, fields := range map[string]body{
		"plan":       {"plan_id": otherPlan},
		"space":      {"space_guid": "another-space"},
		"parameters": {"parameters": body{"charset": "latin1"}},
	} {
		r := i.Provision(t, testdrive.Sync, fields)
		assert.Equal(t, http.StatusConflict, r.Status, "another %s: status %d: %s", name, r.Status, r.Raw)
	}
}

func testCharset(t *testing.T, p testdrive.Platform) {
	parameters := body{"charset": "latin1", "collation": "latin1_german1_ci"}
	i := p.Provisioned(t, "shared-small", body{"parameters": parameters})
	_, c := i.Bound(t, nil)
	db := c.Open(t)
	assert.Equal(t, "latin1", testdrive.Read[string](t, db, "SELECT @@character_set_database"), "the character set")
	assert.Equal(t, "latin1_german1_ci", testdrive.Read[string](t, db, "SELECT @@collation_database"), "the collation")
	r := i.Fetch(t).Expect(t, http.StatusOK)
	assert.True(t, r.String("service_id") == i.ServiceID && r.String("plan_id") == i.PlanID,
		"not the ids that were asked for: %s", r.Raw)
	for name, want := range parameters {
		got := testdrive.Field(r.Body, "parameters", name)
		assert.True(t, got == want, "parameter %s is %v", name, got)
	}
	assert.True(t, testdrive.Field(r.Body, "maintenance_info", "version") == "1.0.0",
		"not the maintenance_info of the catalog: %s", r.Raw)
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
