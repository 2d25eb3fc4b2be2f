package e2e

import (
	"encoding/base64"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// platformScenarios send what particular platforms send, word for word.
var platformScenarios = []scenario{
	{"Cloud Controller", testCloudController},
	{"Korifi", testKorifi},
}

// https://github.com/cloudfoundry/cloud_controller_ng, lib/services/service_brokers/v2/client.rb
func testCloudController(t *testing.T, p testdrive.Platform) {
	headers := map[string]string{
		"X-Broker-API-Version": "2.15",
		"X-Broker-API-Originating-Identity": "cloudfoundry " +
			base64.StdEncoding.EncodeToString([]byte(`{"user_id":"a-user"}`)),
	}
	i := p.NewInstance(t, "shared-small")
	send := func(method, path string, body any) testdrive.Response {
		t.Helper()
		return p.DoWith(t, method, path, body, headers)
	}
	context := body{"platform": "cloudfoundry", "organization_guid": "an-organization", "space_guid": "a-space",
		"organization_name": "shop", "space_name": "dev", "organization_annotations": body{},
		"space_annotations": body{}, "instance_name": "db", "instance_annotations": body{}}
	maintenance := body{"version": "1.0.0", "description": "First version of the shared plans"}
	send("PUT", i.Path()+testdrive.Async, i.ProvisionBody(body{"context": context, "maintenance_info": maintenance})).
		Expect(t, http.StatusCreated)
	b := i.NewBinding()
	r := send("PUT", b.Path()+testdrive.Async, b.With(body{"app_guid": "an-app", "context": context,
		"bind_resource": body{"app_guid": "an-app", "space_guid": "a-space"}})).Expect(t, http.StatusCreated)
	p.Credentials(t, r).Open(t)

	_, large := testdrive.Plan(t, "shared-large")
	send("PATCH", i.Path()+testdrive.Async, body{"service_id": i.ServiceID, "plan_id": large, "parameters": body{},
		"context": context, "maintenance_info": body{"version": "1.0.0"},
		"previous_values": body{"plan_id": i.PlanID, "service_id": i.ServiceID, "organization_id": "an-organization",
			"space_id": "a-space", "maintenance_info": nil}}).Expect(t, http.StatusOK)
	send("GET", i.Path(), nil).Expect(t, http.StatusOK)
	// After an update that it gave up on, it names the former plan.
	testdrive.ExpectEmpty(t, send("DELETE", b.Deletion(b.Path(), testdrive.Async), nil), http.StatusOK)
	testdrive.ExpectEmpty(t, send("DELETE", i.Deletion(i.Path(), testdrive.Async), nil), http.StatusOK)
	p.AwaitLog(t, `"platform":"cloudfoundry","user_id":"a-user"`)
}

// Korifi repeats its request before every poll, and takes a 200 or a 410 for the end.
func testKorifi(t *testing.T, p testdrive.Platform) {
	i := p.NewInstance(t, "shared-async")
	repeat := func(request func() testdrive.Response, end int) {
		t.Helper()
		deadline := time.Now().Add(limits.Stuck)
		r := request().Expect(t, http.StatusAccepted)
		for ; r.Status != end; r = request() {
			require.False(t, time.Now().After(deadline), "the operation did not end")
			i.Poll(t, "?operation="+r.Operation(t)).Expect(t, http.StatusOK)
		}
	}
	repeat(func() testdrive.Response { return i.Provision(t, testdrive.Async, nil) }, http.StatusOK)
	_, c := i.Bound(t, body{"app_guid": ""})
	c.Open(t)
	repeat(func() testdrive.Response { return i.Deprovision(t, testdrive.Async) }, http.StatusGone)
}

const previousPassword = "staple-battery-horse"

// While platforms are switched to a new password one by one, both passwords work.
func testPreviousPassword(t *testing.T, p testdrive.Platform) {
	for password, want := range map[string]int{p.Password: 200, previousPassword: 200, previousPassword + "x": 401, "": 401} {
		login := base64.StdEncoding.EncodeToString([]byte(p.Username + ":" + password))
		r := p.DoWith(t, "GET", "/v2/catalog", nil, map[string]string{"Authorization": "Basic " + login})
		assert.True(t, r.Status == want, "a password of %d characters is answered", len(password))
	}
}

// Without sign-in there is no dashboard, and no response mentions one.
func testNoDashboard(t *testing.T, p testdrive.Platform) {
	i := p.NewInstance(t, "shared-small")
	for _, r := range []testdrive.Response{i.Provision(t, testdrive.Sync, nil).Expect(t, http.StatusCreated), i.Fetch(t),
		i.UpdatePlan(t, testdrive.Sync, "shared-large")} {
		_, there := r.Body["dashboard_url"]
		assert.False(t, there, "the answer names a dashboard: %s", r.Raw)
	}
	p.Do(t, "GET", "/dashboard/", nil).Expect(t, http.StatusNotFound)
}
