package instances

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

// A repeated update is recognized although its request has another trace.
func TestSameUpdateInAnotherTrace(t *testing.T) {
	t.Parallel()
	recorded := json.RawMessage(`{"later": true, "plan_id": "p", "trace": {"traceparent": "00-1-2-01"}}`)
	assert.True(t, sameUpdate(recorded, engine.Request{PlanID: "p"}) && !sameUpdate(recorded, engine.Request{PlanID: "q"}),
		"updates are not compared by what they ask for")
}

// The cleanup of an upgrade puts the earlier data back in a step of its own. Resizing the server back would do that, too,
// but not if the former plan was removed from the catalog.
func TestFailedUpgradeIsReverted(t *testing.T) {
	t.Parallel()
	to := plan.Plan{ID: "to", Kind: plan.Dedicated, Version: "2"}
	p := &Instances{Servers: &steps.Servers{Engine: &engine.Engine{Plans: plan.Set{to, {ID: "from", Kind: plan.Dedicated}}}}}
	for from, want := range map[string][]string{
		"from":    {"revert", "resize", "limit connections"},
		"removed": {"revert"},
	} {
		i := store.Instance{ID: "i", PlanID: from, Location: store.DedicatedLocation("process", "d")}
		var names []string
		for _, s := range p.updateWorkflow(i, engine.Request{PlanID: to.ID, Version: "2"}).Cleanup {
			names = append(names, s.Name)
		}
		assert.True(t, slices.Equal(names, want),
			"from the plan %s, the cleanup has the steps %q, want %q", from, names, want)
	}
}
