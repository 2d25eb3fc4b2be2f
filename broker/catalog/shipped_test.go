package catalog

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/plan"
)

func shipped(t testing.TB) *Catalog {
	t.Helper()
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
