package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/testdrive"
)

var provisionScenarios = []scenario{
	{"provision and repeat", testProvisionTwice},
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
