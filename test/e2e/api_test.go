// Package e2e tests the compiled broker as platforms see it: the API, and one happy path of each operation. What tenants
// try, what becomes of their data, and what operators do is in the packages below, where brokers also are killed and
// paused, and race: these tests are called TestFault….
package e2e

import (
	"encoding/base64"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

type body = testdrive.Body

func TestMain(m *testing.M) { servers.Main(m) }

// scenarios are tests of the API, by name.
var scenarios = map[string]func(t *testing.T, p testdrive.Platform){
	"Cloud Controller":                        testCloudController,
	"Korifi":                                  testKorifi,
	"provision and repeat":                    testProvisionTwice,
	"deprovision with bindings left":          testDeprovision,
	"update between shared plans":             testUpdate,
	"operations that are not there":           testUnknownOperations,
	"platforms without tokens":                testNoToken,
	"bind and log in":                         testBind,
	"rotate a binding":                        testRotateBinding,
	"bindings that end by themselves":         testExpiry,
	"tls of bindings":                         testTLSOfBindings,
	"dedicated from provision to deprovision": testDedicated,
	"clone":     testClone,
	"bootstrap": testBootstrap,
	"move":      testMove,
}

// TestAPI runs every scenario on every flavour, with one broker for each flavour.
func TestAPI(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		env["LOG_LEVEL"] = "debug"
		env["CATALOG"] = testdrive.EditedCatalog(t, testdrive.InPlan("shared-large", "tls: optional", "tls: required"))
		env["BROKER_PASSWORD_PREVIOUS"], env["EXTERNAL_URL"] = previousPassword, "https://broker.example.com"
		p := testdrive.StartPlatform(t, server, env)
		p.Seen.Add(previousPassword)
		for name, run := range scenarios {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, p)
			})
		}
	})
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
	assert.NotContains(t, r.Body, "dashboard_url", "without sign-in")
	p.Do(t, "GET", "/dashboard/", nil).Expect(t, http.StatusNotFound)

	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusOK)
	testdrive.ExpectConnectionLimit(t, admin, before.Username, 30)
	testdrive.ExpectConnectionLimit(t, admin, after.Username, 30)
	testdrive.ExpectEmpty(t, i.Update(t, testdrive.Async, body{"parameters": body{}}), http.StatusOK)
	testdrive.ExpectEmpty(t, i.Update(t, testdrive.Sync, body{"plan_id": i.PlanID, "context": body{"instance_name": "renamed"}}),
		http.StatusOK)
}

// Cloud Controller polls on for days after a 404 and stops at a 400.
func testUnknownOperations(t *testing.T, p testdrive.Platform) {
	i, other := p.NewInstance(t, "shared-async"), p.NewInstance(t, "shared-async")
	operation := i.Provision(t, testdrive.Async, nil).Operation(t)
	assert.Regexp(t, `^task_[1-9][0-9]*$`, operation)
	i.Await(t, operation)
	foreign := other.Provision(t, testdrive.Async, nil).Operation(t)
	other.Await(t, foreign)
	for _, unknown := range []string{foreign, "task_999999999", "task_0", "task_", "task_1x", "garbage", "%27--"} {
		testdrive.ExpectRefusal(t, i.Poll(t, "?operation="+unknown), 400)
	}
	testdrive.ExpectRefusal(t, i.Poll(t, "?service_id=no-such-service&operation="+operation), 400)
	i.Poll(t, "?service_id="+i.ServiceID+"&plan_id="+i.PlanID+"&operation="+operation).Expect(t, http.StatusOK)
	p.NewInstance(t, "shared-async").Poll(t, "?operation="+operation).Expect(t, http.StatusBadRequest)
}

// Some platforms keep no tokens, and poll with the name of an operation or with nothing.
func testNoToken(t *testing.T, p testdrive.Platform) {
	i := p.NewInstance(t, "shared-async")
	i.Await(t, i.Provision(t, testdrive.Async, nil).Operation(t))
	i.Await(t, "provision")
	i.Await(t, "")
	i.Poll(t, "").Expect(t, http.StatusOK)
	testdrive.ExpectRefusal(t, i.Poll(t, "?operation=deprovision"), 400)
	i.Remove(t)
	i.Await(t, "deprovision")
	i.Await(t, "")
}

// testCloudController sends what Cloud Controller sends, word for word:
// https://github.com/cloudfoundry/cloud_controller_ng, lib/services/service_brokers/v2/client.rb
func testCloudController(t *testing.T, p testdrive.Platform) {
	headers := map[string]string{
		"X-Broker-API-Version": "2.15",
		"X-Broker-API-Originating-Identity": "cloudfoundry " +
			base64.StdEncoding.EncodeToString([]byte(`{"user_id":"a-user"}`)),
	}
	i := p.NewInstance(t, "shared-small")
	send := func(method, path string, body any) testdrive.Response {
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

const previousPassword = "staple-battery-horse"

// Korifi repeats its request before every poll, and takes a 200 or a 410 for the end. It has not learned of the new
// password yet.
func testKorifi(t *testing.T, p testdrive.Platform) {
	earlier := *p.Broker
	earlier.Password, p.Broker = previousPassword, &earlier
	i := p.NewInstance(t, "shared-async")
	repeat := func(request func() testdrive.Response, end int) {
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
