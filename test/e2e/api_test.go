// Package e2e tests the compiled broker as platforms see it: the API, and one happy path of each operation. What tenants
// try, what becomes of their data, and what operators do is in the packages below, where brokers also are killed and
// paused, and race: these tests are called TestFault….
package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

type body = testdrive.Body

func TestMain(m *testing.M) {
	servers.Main(m)
}

// scenario is a named test of the API.
type scenario struct {
	name string
	run  func(t *testing.T, p testdrive.Platform)
}

// onceScenarios are those that do not depend on the flavour and take long.
var onceScenarios = []scenario{
	{"either password", testPreviousPassword},
	{"no dashboard", testNoDashboard},
}

// TestAPI runs every scenario on every flavour, with one broker for each flavour.
func TestAPI(t *testing.T) {
	t.Parallel()
	chosen := servers.Chosen(t, servers.AllMySQL(t))
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		env["LOG_LEVEL"] = "debug"
		env["CATALOG"] = testdrive.EditedCatalog(t, testdrive.InPlan("shared-large", "tls: optional", "tls: required"))
		env["BROKER_PASSWORD_PREVIOUS"], env["EXTERNAL_URL"] = previousPassword, "https://broker.example.com"
		p := testdrive.StartPlatform(t, server, env)
		p.Seen.Add(previousPassword)
		all := [][]scenario{platformScenarios, provisionScenarios, bindScenarios,
			asyncScenarios, dedicatedScenarios, updateScenarios, expiryScenarios, copyScenarios, tlsScenarios}
		if server == chosen[len(chosen)-1] {
			all = append(all, onceScenarios)
		}
		for _, scenarios := range all {
			for _, s := range scenarios {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					s.run(t, p)
				})
			}
		}
	})
}

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

var asyncScenarios = []scenario{
	{"operations that are not there", testUnknownOperations},
	{"platforms without tokens", testNoToken},
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
