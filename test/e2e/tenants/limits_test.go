package tenants

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

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
		t.Helper()
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
