package provisioner

import (
	"encoding/json"
	"testing"
)

// A repeated update is recognized although its request has another trace.
func TestSameUpdateInAnotherTrace(t *testing.T) {
	t.Parallel()
	recorded := json.RawMessage(`{"later": true, "plan_id": "p", "trace": {"traceparent": "00-1-2-01"}}`)
	if !sameUpdate(recorded, request{PlanID: "p"}) || sameUpdate(recorded, request{PlanID: "q"}) {
		t.Error("updates are not compared by what they ask for")
	}
}
