package provisioner

import (
	"encoding/json"
	"testing"

	"mysql-broker/provisioner/plan"
)

// TestTenants asks for the data of one instance for another one.
func TestTenants(t *testing.T) {
	t.Parallel()
	const cf, kubernetes = `{"platform":"cloudfoundry"}`, `{"platform":"kubernetes","clusterid":"c","namespace":"n"}`
	closed, open := plan.Plan{}, plan.Plan{AllowCrossSpace: true}
	for _, test := range []struct {
		name           string
		of, by         tenant
		source, target plan.Plan
		want           bool
	}{
		{"the same space", tenantOf("o", "s", json.RawMessage(cf)), tenantOf("o", "s", json.RawMessage(cf)), closed, closed,
			true},
		{"another space", tenantOf("o", "s", json.RawMessage(cf)), tenantOf("o", "s2", json.RawMessage(cf)), closed, closed,
			false},
		{"another organization", tenantOf("o", "s", json.RawMessage(cf)), tenantOf("o2", "s", json.RawMessage(cf)), closed,
			closed, false},
		{"another platform", tenantOf("o", "s", json.RawMessage(cf)), tenantOf("o", "s", json.RawMessage(`{"platform":"x"}`)),
			closed, closed, false},
		{"no space", tenantOf("o", "", json.RawMessage(cf)), tenantOf("o", "", json.RawMessage(cf)), closed, closed, false},
		{"no context", tenantOf("o", "s", nil), tenantOf("o", "s", nil), closed, closed, false},
		{"a context of other form", tenantOf("o", "s", json.RawMessage(`[]`)), tenantOf("o", "s", json.RawMessage(`[]`)),
			closed, closed, false},
		{"the same namespace", tenantOf("o", "s", json.RawMessage(kubernetes)),
			tenantOf("o2", "s2", json.RawMessage(kubernetes)), closed, closed, true},
		{"another cluster", tenantOf("o", "s", json.RawMessage(kubernetes)),
			tenantOf("o", "s", json.RawMessage(`{"platform":"kubernetes","clusterid":"d","namespace":"n"}`)), closed, closed,
			false},
		{"allowed by both plans", tenantOf("o", "s", nil), tenantOf("o", "s2", nil), open, open, true},
		{"allowed by the source's plan", tenantOf("o", "s", nil), tenantOf("o", "s2", nil), open, closed, false},
		{"allowed by the new plan", tenantOf("o", "s", nil), tenantOf("o", "s2", nil), closed, open, false},
	} {
		if got := test.by.mayUse(test.of, test.target, test.source); got != test.want {
			t.Errorf("%s: %t instead of %t", test.name, got, test.want)
		}
	}
	if noSource("x").Error() != "There is no service instance x in this space." {
		t.Error(noSource("x"))
	}
}
