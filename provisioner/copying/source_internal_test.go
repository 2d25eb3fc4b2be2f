package copying

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/plan"
)

// TestTenants asks for the data of one instance for another one.
func TestTenants(t *testing.T) {
	t.Parallel()
	const cf, kubernetes = `{"platform":"cloudfoundry"}`, `{"platform":"kubernetes","clusterid":"c","namespace":"n"}`
	closed, open := plan.Plan{}, plan.Plan{AllowCrossSpace: true}
	for _, test := range []struct {
		name           string
		of, by         Tenant
		source, target plan.Plan
		want           bool
	}{
		{"the same space", TenantOf("o", "s", json.RawMessage(cf)), TenantOf("o", "s", json.RawMessage(cf)), closed, closed,
			true},
		{"another space", TenantOf("o", "s", json.RawMessage(cf)), TenantOf("o", "s2", json.RawMessage(cf)), closed, closed,
			false},
		{"another organization", TenantOf("o", "s", json.RawMessage(cf)), TenantOf("o2", "s", json.RawMessage(cf)), closed,
			closed, false},
		{"another platform", TenantOf("o", "s", json.RawMessage(cf)), TenantOf("o", "s", json.RawMessage(`{"platform":"x"}`)),
			closed, closed, false},
		{"no space", TenantOf("o", "", json.RawMessage(cf)), TenantOf("o", "", json.RawMessage(cf)), closed, closed, false},
		{"no context", TenantOf("o", "s", nil), TenantOf("o", "s", nil), closed, closed, false},
		{"a context of other form", TenantOf("o", "s", json.RawMessage(`[]`)), TenantOf("o", "s", json.RawMessage(`[]`)),
			closed, closed, false},
		{"the same namespace", TenantOf("o", "s", json.RawMessage(kubernetes)),
			TenantOf("o2", "s2", json.RawMessage(kubernetes)), closed, closed, true},
		{"another cluster", TenantOf("o", "s", json.RawMessage(kubernetes)),
			TenantOf("o", "s", json.RawMessage(`{"platform":"kubernetes","clusterid":"d","namespace":"n"}`)), closed, closed,
			false},
		{"allowed by both plans", TenantOf("o", "s", nil), TenantOf("o", "s2", nil), open, open, true},
		{"allowed by the source's plan", TenantOf("o", "s", nil), TenantOf("o", "s2", nil), open, closed, false},
		{"allowed by the new plan", TenantOf("o", "s", nil), TenantOf("o", "s2", nil), closed, open, false},
	} {
		assert.Equal(t, test.want, test.by.MayUse(test.of, test.target, test.source), test.name)
	}
	for context, lacks := range map[string]string{cf: "", kubernetes: "", ``: `"platform"`, `[]`: `"platform"`,
		`{"platform":1}`: `"platform"`, `{"platform":"kubernetes","namespace":"n"}`: `"clusterid"`,
		`{"platform":"kubernetes","clusterid":"c"}`: `"namespace"`} {
		by := TenantOf("o", "s", json.RawMessage(context))
		got := by.Refuse(noSource("x")).Error()
		assert.True(t, (got == noSource("x").Error()) == (lacks == "") && strings.Contains(got, lacks),
			"with the context %s: %s", context, got)
	}
	if noSource("x").Error() != "There is no service instance x in this space." {
		t.Error(noSource("x"))
	}
}
