package catalog

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
	assert.Equal(t, []domain.Service{}, c.Without(func(plan.Plan) bool { return true }).Services(), "an empty offering")
}

func parse(t testing.TB, file string) *Catalog {
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

func shipped(t testing.TB) *Catalog {
	c, err := Load("../../catalog.yml")
	require.NoError(t, err, "the catalog in this repository is refused")
	return c
}

func TestShippedPlans(t *testing.T) {
	t.Parallel()
	const small, large, async = "482650c1-b09b-47d4-952a-7d320c6dd4d1",
		"80dae88e-93d0-4072-969d-811f9ce9a3bd", "b897124e-c33b-4eed-94cf-eb0978d71ec8"
	const ownSmall, ownLarge = "ca53086a-962f-4faf-9f53-cc2175872b66", "c6586a9e-6079-49f8-800c-7dc5579d9b31"
	shared, dedicated := plan.Shared, plan.Dedicated
	want := []plan.Plan{
		{ID: small, Name: "shared-small", Kind: shared, Async: "never", MaxStorageMB: 100, MaxConnections: 30,
			MaxBindings: 10},
		{ID: large, Name: "shared-large", Kind: shared, Async: "never", MaxStorageMB: 1024, MaxConnections: 60,
			MaxBindings: 10},
		{ID: async, Name: "shared-async", Kind: shared, Async: "preferred", MaxStorageMB: 100, MaxConnections: 30,
			MaxBindings: 10},
		{ID: ownSmall, Name: "dedicated-small", Kind: dedicated, Async: "required",
			MaxStorageMB: 1024, MaxConnections: 50, MaxBindings: 20, Events: true, MemoryMB: 256,
			MaxPolling: 30 * time.Minute},
		{ID: ownLarge, Name: "dedicated-large", Kind: dedicated, Async: "required",
			MaxStorageMB: 10240, MaxConnections: 200, MaxBindings: 50, Events: true, MemoryMB: 1024,
			MaxPolling: 30 * time.Minute},
	}
	for i := range want {
		want[i].TLS, want[i].Rotatable = plan.TLSOptional, true
		want[i].ServiceID = "2bbbcb07-1e0c-4a3b-8a4e-30bf3a3e1fe4"
		if want[i].Kind == shared { // that of a dedicated plan is the version of its servers
			want[i].MaintenanceVersion = "1.0.0"
		}
	}
	assert.EqualValues(t, want, shipped(t).Plans())
}

func TestShippedOfferingOnTheWire(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(shipped(t).Services())
	require.NoError(t, err)
	for _, want := range []string{
		`"name":"mysql"`, `"tags":["mysql","relational"]`, `"bindable":true`, `"plan_updateable":true`,
		`"instances_retrievable":true`, `"bindings_retrievable":true`, `"displayName":"MySQL"`,
		`"maximum_polling_duration":1800`, `"maintenance_info":{"version":"1.0.0","description":`,
		`"free":true`, `"free":false`, `"enum":["read-only","read-write","admin"]`, `"maxLength":64`,
	} {
		assert.Contains(t, string(data), want)
	}
	for _, secret := range []string{`"broker"`, "memory_mb", "max_storage_mb", "max_bindings", "provisioner", "null"} {
		assert.NotContains(t, string(data), secret, "platforms see it")
	}
}

// Parse accepts no file halfway: it returns a catalog whose plans can be found, or problems with their lines.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "services: []", valid, "a: &a [*a]", "? x\n: y", "services:\n- id: |\n", "a: !!binary x", "- - -", "{a: [",
		replaceLine(21, "            properties: {charset: {pattern: '('}}"),
	} {
		f.Add([]byte(seed))
	}
	problem := regexp.MustCompile(`^c\.yml:[1-9][0-9]*: .`)
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := Parse("c.yml", file)
		if err != nil {
			assert.True(t, problem.MatchString(err.Error()), "a problem without its line: %v", err)
			return
		}
		_, err = json.Marshal(c.Services())
		assert.NoError(t, err, "the catalog cannot be served")
		for _, p := range c.Plans() {
			got, err := c.Plan(p.ServiceID, p.ID)
			assert.True(t, got == p && err == nil, "Plan(%q, %q) = %+v, %v", p.ServiceID, p.ID, got, err)
		}
	})
}

// Parameters are a JSON object with values that are safe in SQL, or are refused with a *ParameterError of one line.
func FuzzParameters(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "null", "[]", `{"charset":"utf8mb4","collation":"utf8mb4_bin"}`, `{"role":"admin"}`,
		`{"charset":"a","charset":"b"}`, `{"charset":{"a":[1,2.5e400,true,null]}}`, "{\"\xff\":1}", `{"\ud800":""}`,
	} {
		f.Add([]byte(seed))
	}
	c := shipped(f)
	safe := regexp.MustCompile(`^[A-Za-z0-9_]*$`)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for name, request := range requests {
			err := request(c, sharedSmall, raw)
			var refusal *ParameterError
			assert.False(t, err != nil && (!errors.As(err, &refusal) || strings.Contains(err.Error(), "\n")),
				"%s: %T %v", name, err, err)
			assert.False(t, err == nil && len(raw) > 0 && json.Unmarshal(raw, &map[string]any{}) != nil,
				"%s: accepted what is no object", name)
		}
		p, err := c.InstanceParameters(sharedSmall, raw)
		assert.False(t, err == nil && !(safe.MatchString(p.Charset) && safe.MatchString(p.Collation)), "accepted %+v", p)
	})
}
