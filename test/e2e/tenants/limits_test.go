// Package tenants tests the limits of what tenants can do, with the compiled broker: how many instances and bindings
// they get, how much data, and what they can send and set.
package tenants

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestInstanceLimits creates as many instances as the catalog allows. That many requests at once create no more, package
// provisioner tests.
func TestInstanceLimits(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	env["CATALOG"] = testdrive.EditedCatalog(t, func(text string) string {
		text = testdrive.InPlan("shared-small", "max_bindings:",
			"limits: {instances: 6, instances_per_organization: 4}, max_bindings:")(text)
		return "limits: {instances: 8, instances_per_organization: 7}\n" + text
	})
	p := testdrive.StartPlatform(t, s, env)
	create := func(n int, organization string) (made []testdrive.Instance) {
		for range n {
			made = append(made, p.Provisioned(t, "shared-small", body{"organization_guid": organization}))
		}
		return made
	}

	first := create(4, "first")
	refused := p.NewInstance(t, "shared-small")
	testdrive.ExpectRefusal(t, refused.Provision(t, testdrive.Sync, body{"organization_guid": "first"}), http.StatusBadRequest,
		"Your organization has 4 service instances of plan shared-small, and may have 4", "Delete one", "operator")
	first[0].Provision(t, testdrive.Sync, body{"organization_guid": "first"}).Expect(t, http.StatusOK) // a repeat needs no room

	create(2, "second")
	large := p.NewInstance(t, "shared-large")
	large.Provision(t, testdrive.Sync, body{"organization_guid": "second"}).Expect(t, http.StatusCreated)
	testdrive.ExpectRefusal(t, large.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusBadRequest,
		"This service broker has 6 service instances of plan shared-small, and may have 6")
	eighth := p.NewInstance(t, "shared-large")
	eighth.Provision(t, testdrive.Sync, body{"organization_guid": "third"}).Expect(t, http.StatusCreated)
	testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-large").Provision(t, testdrive.Sync, nil), http.StatusBadRequest,
		"This service broker has 8 service instances, and may have 8")

	quotas := testdrive.Run(t, env, "quotas").Expect(t, 0).Stdout
	for _, line := range []string{"all\tall\t-\t8\t8", "shared-small\tall\t-\t6\t6", "shared-small\tfirst\t-\t4\t4",
		"shared-large\tthird\t-\t1\t-"} {
		assert.True(t, strings.Contains("\n"+quotas, "\n"+line+"\n"),
			"mysql-broker quotas does not print %q:\n%s", line, quotas)
	}
	metrics := p.Scrape(t)
	for name, want := range map[string]string{`instance_limit{plan="shared-small"}`: "6", `instance_limit{plan=""}`: "8",
		`organization_instances{plan="shared-small"}`: "4", `organization_instance_limit{plan="shared-small"}`: "4",
		`organization_instances{plan=""}`: "4", `organization_instance_limit{plan=""}`: "7"} {
		assert.Equal(t, want, metrics["mysql_broker_"+name], "mysql_broker_%s", name)
	}

	first[0].Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
	testdrive.ExpectEmpty(t, large.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusOK)
	testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-small").Provision(t, testdrive.Sync, body{"organization_guid": "first"}),
		http.StatusBadRequest, "has 6 service instances of plan shared-small")
}

// TestBindingLimit creates as many bindings as the plan allows: without the limit, the bindings of one instance could take
// all connections of a server. That many requests at once create no more, package provisioner tests.
func TestBindingLimit(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	env["CATALOG"] = testdrive.EditedCatalog(t, testdrive.InPlan("shared-small", "max_bindings: 10",
		fmt.Sprintf("max_bindings: %d", bindLimit)))
	p := testdrive.StartPlatform(t, s, env)
	i := p.Provisioned(t, "shared-small", nil)
	var made []testdrive.Binding
	for range bindLimit {
		b, _ := i.Bound(t, nil)
		made = append(made, b)
	}
	refused := i.NewBinding()
	testdrive.ExpectError(t, refused.Bind(t, nil), "BindingLimitReached", "has 3 service bindings", "shared-small allows 3",
		"Delete one", "larger plan")
	// Cloud Controller sends this after a refusal of a code that it does not know. It must end nothing.
	testdrive.ExpectEmpty(t, refused.Unbind(t), http.StatusGone)
	next, _ := i.Bound(t, body{"predecessor_binding_id": made[2].BindingID}) // one more during a rotation
	testdrive.ExpectError(t, i.NewBinding().Bind(t, body{"predecessor_binding_id": next.BindingID}), "BindingLimitReached")
	testdrive.ExpectEmpty(t, next.Unbind(t), http.StatusOK)
	made[0].Bind(t, nil).Expect(t, http.StatusOK) // a repeat needs no place
	expectBindings(t, i, bindLimit)
	if out := testdrive.Run(t, env, "servers", "shared-1").Expect(t, 0); !regexp.MustCompile(
		`(?m)^sold_connections:\s+` + strconv.Itoa(bindLimit*30) + "$").MatchString(out.Stdout) {
		t.Errorf("mysql-broker servers: %s", out.Stdout)
	}

	// An account that outlives its binding takes no place.
	definer := i.Credentials(t, made[0].Fetch(t).Expect(t, http.StatusOK))
	testdrive.Exec(t, definer.Open(t), "CREATE VIEW one AS SELECT 1 AS one")
	made[0].Unbind(t).Expect(t, http.StatusOK)
	n := testdrive.Read[int](t, p.Admin(t), "SELECT COUNT(*) FROM mysql.user WHERE user = ?", definer.Username)
	require.Equal(t, 1, n, "the account of the view's definer is there %d times", n)
	i.Bound(t, nil)
	testdrive.ExpectError(t, i.NewBinding().Bind(t, nil), "BindingLimitReached")

	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)
	more, _ := i.Bound(t, nil)
	testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Sync, "shared-small"), "PlanChangeNotSupported", "has 4 service bindings",
		"shared-small allows 3", "Delete 1")
	more.Unbind(t).Expect(t, http.StatusOK)
	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusOK)
	expectBindings(t, i, bindLimit)
}

// bindLimit is how many bindings an instance of shared-small may have.
const bindLimit = 3

// expectBindings fails the test unless the instance reports this number of bindings, and the limit.
func expectBindings(t *testing.T, i testdrive.Instance, want int) {
	r := i.Fetch(t).Expect(t, http.StatusOK)
	n, limit := testdrive.Field(r.Body, "metadata", "attributes", "bindings"), testdrive.Field(r.Body, "metadata", "attributes", "max_bindings")
	assert.True(t, n == float64(want) && limit == float64(bindLimit),
		"%v of %v bindings instead of %d of %d: %s", n, limit, want, bindLimit, r.Raw)
}

type body = testdrive.Body

func TestMain(m *testing.M) { servers.Main(m) }

// TestQuota reads what platforms, developers, operators and metrics are told about an instance that goes over its quota
// and comes back. Which statements are refused to which account then, and until when, package quota tests.
func TestQuota(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.QuotaEnvironment(t, s)
	p := testdrive.StartPlatform(t, s, env)
	i := p.MakeOwn(t, "shared-small")
	_, c := i.Bound(t, nil)
	db := c.Open(t)
	testdrive.Fill(t, db, 1)
	testdrive.Eventually(t, "the platform is told what the data takes", func() bool {
		return storageOf(t, i)["storage_state"] == "ok"
	})

	testdrive.Overfill(t, db, testdrive.QuotaSmall)
	line := p.AwaitLog(t, "a service instance is over its quota")
	assert.True(t, strings.Contains(line, i.ID) && strings.Contains(line, `"quota_bytes":41943040`),
		"the log tells no more than: %s", line)
	told := storageOf(t, i)
	assert.True(t, told["storage_state"] == "over quota" && told["storage_message"] != nil,
		"the platform is told: %v", told)
	testdrive.Eventually(t, "metrics tell", func() bool { // which may be a minute old on a busy machine
		return p.Scrape(t)[`mysql_broker_quota_instances{level="100",plan="shared-small"}`] == "1"
	})
	testdrive.ExpectFigures(t, p, map[string]string{
		`mysql_broker_instance_storage_quota_bytes{instance_id="` + i.ID + `",plan="shared-small"}`: "4.194304e+07",
		`mysql_broker_quota_accounts_due`:                                  "0",
		`mysql_broker_quota_instances{level="80",plan="shared-small"}`:     "0",
		`mysql_broker_quota_instances{level="100",plan="dedicated-small"}`: "0",
	})
	user := p.Terminal(t)
	user.Env["MYSQL_BROKER_CLIENT_STATE"] = filepath.Join(t.TempDir(), "client.json") // knows an instance that it did not make
	known := testdrive.Encode(t, body{p.URL: body{"mine": body{"guid": i.ID, "plan": body{"name": "shared-small"}}}})
	require.NoError(t, os.WriteFile(user.Env["MYSQL_BROKER_CLIENT_STATE"], []byte(known), 0o600))
	user.Expect(t, "over quota", "service", "mine")
	shown := p.Operator(env).Run(t, 0, "instances", i.ID, "--json").Stdout
	assert.True(t, strings.Contains(shown, `"over_quota_since"`) && strings.Contains(shown, `"storage_bytes"`),
		"operators see: %s", shown)

	testdrive.Exec(t, db, "DELETE FROM filler WHERE id > 3")
	testdrive.AwaitAllowed(t, db)
	told = storageOf(t, i)
	assert.True(t, told["storage_state"] == "ok", "the platform is told: %v", told)

	p.Kill(t)
	env["QUOTA_INTERVAL"] = "0"
	p = testdrive.StartPlatform(t, s, env)
	assert.Empty(t, storageOf(t, i.Via(p)), "the platform is told of measurements that are not made any more")
	for name := range p.Scrape(t) {
		assert.False(t, strings.Contains(name, "quota") || strings.Contains(name, "storage"),
			"without measurements, there is the metric %s", name)
	}
	testdrive.ExpectEmpty(t, i.Via(p).Deprovision(t, testdrive.Sync), http.StatusOK)
}

// storageOf is what the platform is told about an instance's storage.
func storageOf(t *testing.T, i testdrive.Instance) map[string]any {
	told := map[string]any{}
	all, _ := testdrive.Field(i.Fetch(t).Expect(t, http.StatusOK).Body, "metadata", "attributes").(map[string]any)
	for name, value := range all {
		if strings.HasPrefix(name, "storage") {
			told[name] = value
		}
	}
	return told
}
