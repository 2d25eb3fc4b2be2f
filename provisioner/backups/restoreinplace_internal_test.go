package backups

import (
	"strings"
	"testing"

	"mysql-broker/provisioner/engine"
	"mysql-broker/store"
)

// Only a restore in place gives data back if it fails. A lost database has none.
func TestAdviceAfterAFailedRestore(t *testing.T) {
	t.Parallel()
	for lost, want := range map[bool]string{false: "gets its earlier data back", true: "What was restored is dropped"} {
		says := restoreKind.AdviceOf(store.Task{Request: engine.Request{RestoreID: "b_1", Lost: lost}.JSON()})
		if !strings.Contains(says, want) || strings.Contains(says, "earlier data") == lost {
			t.Errorf("lost %t: %q", lost, says)
		}
	}
}
