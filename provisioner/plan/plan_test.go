package plan_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/plan"
)

var small = plan.Plan{ID: "1", Name: "small", ServiceID: "mysql", Kind: plan.Dedicated, Async: plan.AsyncPreferred,
	MaxStorageMB: 3}

// TestSet looks up plans that the catalog has, and plans that were removed from it.
func TestSet(t *testing.T) {
	t.Parallel()
	set := plan.Set{small, {ID: "2", Name: "large"}}
	for _, test := range []struct {
		name      string
		got, want plan.Plan
	}{
		{"in the catalog", set.Get("1"), small},
		{"in the catalog, with other facts", set.Of("1", "other", plan.Shared), small},
		{"removed", set.Get("3"), plan.Plan{ID: "3", Name: "3", Removed: true}},
		{"removed from none", plan.Set(nil).Get("1"), plan.Plan{ID: "1", Name: "1", Removed: true}},
		{"removed, of a shared instance", set.Of("3", "mysql", plan.Shared),
			plan.Plan{ID: "3", Name: "3", Removed: true, ServiceID: "mysql", Kind: plan.Shared, Async: plan.AsyncNever}},
		{"removed, of a dedicated instance", set.Of("3", "mysql", plan.Dedicated),
			plan.Plan{ID: "3", Name: "3", Removed: true, ServiceID: "mysql", Kind: plan.Dedicated, Async: plan.AsyncRequired}},
	} {
		assert.True(t, test.got == test.want, "%s: %+v instead of %+v", test.name, test.got, test.want)
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	got := small.Quota()
	assert.True(t, got == 3*1024*1024, "%d bytes instead of 3 MiB", got)
	assert.Zero(t, (plan.Set{}).Get("removed").Quota(), "bytes for a removed plan")
}
