package instances

import (
	"encoding/json"
	"testing"

	"mysql-broker/provisioner/engine"
)

// A repeated update is recognized although its request has another trace.
func TestSameUpdateInAnotherTrace(t *testing.T) {
	t.Parallel()
	recorded := json.RawMessage(`{"later": true, "plan_id": "p", "trace": {"traceparent": "00-1-2-01"}}`)
	if !sameUpdate(recorded, engine.Request{PlanID: "p"}) || sameUpdate(recorded, engine.Request{PlanID: "q"}) {
		t.Error("updates are not compared by what they ask for")
	}
}
