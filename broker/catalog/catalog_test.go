package catalog

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
)

func TestLoadNamesTheFile(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none.yml")
	_, err := Load(missing)
	assert.ErrorIs(t, err, os.ErrNotExist, "Load of a missing file")
	broken := filepath.Join(t.TempDir(), "catalog.yml")
	require.NoError(t, os.WriteFile(broken, []byte("services: []"), 0o600))
	_, err = Load(broken)
	assert.EqualError(t, err, broken+`:1: "services" of the catalog must be a list with at least one item`)
}

func TestPlanOfRequest(t *testing.T) {
	t.Parallel()
	second := `- id: s2
  name: other
  description: Another
  bindable: true
  plans:
  - id: p2
    name: small
    description: Small
    broker: {provisioner: shared, async: never, max_storage_mb: 2, max_connections: 1}
`
	c := parse(t, valid+second)
	tests := []struct {
		service, plan string
		want          error
	}{
		{"s", "p", nil},
		{"s2", "p2", nil},
		{"s", "p2", ErrUnknownPlan},
		{"s", "", ErrUnknownPlan},
		{"", "p", ErrUnknownService},
		{"S", "p", ErrUnknownService},
	}
	for _, test := range tests {
		got, err := c.Plan(test.service, test.plan)
		assert.ErrorIs(t, err, test.want, "Plan(%q, %q): error %v, want %v", test.service, test.plan, err, test.want)
		assert.False(t, err == nil && (got.ServiceID != test.service || got.ID != test.plan),
			"Plan(%q, %q) = %+v", test.service, test.plan, got)
	}
}

// A plan without a limit on bindings has the default, so that no instance can take all connections of a server.
func TestMaxBindings(t *testing.T) {
	t.Parallel()
	c := parse(t, strings.Replace(valid, "max_connections: 1}", "max_connections: 1, max_bindings: 3}", 1))
	for n, want := range []int{3, DefaultMaxBindings} {
		p := c.Plans()[n]
		assert.Equal(t, want, p.MaxBindings, "plan %s allows %d bindings", p.Name, p.MaxBindings)
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	c := shipped(t)
	dedicated := func(p plan.Plan) bool { return p.Kind == plan.Dedicated }
	shared := c.Without(dedicated)
	for _, p := range shared.Services()[0].Plans {
		kept, err := shared.Plan(shared.Services()[0].ID, p.ID)
		assert.True(t, err == nil && kept.Kind == plan.Shared, "plan %s is made as %+v, %v", p.Name, kept, err)
	}
	assert.Len(t, shared.Services()[0].Plans, 3)
	assert.Len(t, shared.Plans(), 3)
	assert.Len(t, c.Services()[0].Plans, 5, "the full catalog changed")
	assert.Len(t, c.Plans(), 5, "the full catalog changed")
	for _, p := range c.Plans() {
		_, err := shared.InstanceParameters(p.ID, nil)
		assert.Equal(t, p.Kind == plan.Dedicated, errors.Is(err, ErrUnknownPlan), "parameters of %s: %v", p.Name, err)
	}
}

func TestWithoutLeavesNoEmptyOffering(t *testing.T) {
	t.Parallel()
	c := parse(t, `services:
- id: s
  name: db
  description: A database
  bindable: true
  plans:
  - id: p
    name: own
    description: Own
    broker: {provisioner: dedicated, async: required, memory_mb: 256, max_storage_mb: 1, max_connections: 1}
`)
	assert.Equal(t, []domain.Service{}, c.Without(func(plan.Plan) bool { return true }).Services())
}

func parse(t testing.TB, file string) *Catalog {
	t.Helper()
	c, err := Parse("c.yml", []byte(file))
	require.NoError(t, err)
	return c
}

// The maintenance_info of dedicated plans is the version of their servers; that of shared plans is the file's.
func TestWithVersions(t *testing.T) {
	t.Parallel()
	before := shipped(t)
	wants := launcher.Version{Flavour: "mariadb", Version: "11.8"}
	c, err := before.WithVersions(func(plan.Plan) (launcher.Version, bool, error) { return wants, true, nil })
	require.NoError(t, err)
	for _, p := range c.Services()[0].Plans {
		kept, err := c.Plan(c.Services()[0].ID, p.ID)
		require.NoError(t, err)
		version := "1.0.0"
		if kept.Kind == plan.Dedicated {
			version = "11.8.0"
		}
		assert.True(t, p.MaintenanceInfo != nil && p.MaintenanceInfo.Version == version && kept.MaintenanceVersion == version,
			"plan %s: %+v, %q", p.Name, p.MaintenanceInfo, kept.MaintenanceVersion)
	}
	assert.Equal(t, shipped(t).Plans(), before.Plans(), "the catalog before has changed")
	failing := errors.New("there is none")
	_, err = before.WithVersions(func(plan.Plan) (launcher.Version, bool, error) { return wants, false, failing })
	assert.ErrorIs(t, err, failing)
}

func TestDashboardClient(t *testing.T) {
	t.Parallel()
	plain := shipped(t)
	with := plain.WithDashboardClient(domain.ServiceDashboardClient{ID: "mysql", Secret: "hush",
		RedirectURI: "https://broker.example.com/dashboard/sign-in/callback"})
	raw, err := json.Marshal(with.Services())
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"dashboard_client":{"id":"mysql","secret":"hush","redirect_uri":`+
		`"https://broker.example.com/dashboard/sign-in/callback"}`)
	assert.Equal(t, plain.Plans(), with.Plans())
	assert.Nil(t, plain.Services()[0].DashboardClient, "the catalog that was not changed")
}

func TestPlacement(t *testing.T) {
	t.Parallel()
	c := parse(t, replaceLine(31, `      memory_mb: 192
      milli_cpu: 250
      node: own
      storage_class: fast.example.com
      tolerations: [{key: mysql, value: own, effect: NoSchedule}, {operator: Exists}]
      labels: {example.com/team: data}
      annotations: {note: any text}`))
	got := c.Plans().Get("q")
	want := &plan.Placement{OwnNode: true, StorageClass: "fast.example.com",
		Tolerations: []plan.Toleration{{Key: "mysql", Operator: "Equal", Value: "own", Effect: "NoSchedule"},
			{Operator: "Exists"}},
		Labels: map[string]string{"example.com/team": "data"}, Annotations: map[string]string{"note": "any text"}}
	assert.Equal(t, 250, got.MilliCPU)
	assert.Equal(t, want, got.Placement)
	assert.Nil(t, c.Plans().Get("p").Placement, "of a plan that says nothing")
}
