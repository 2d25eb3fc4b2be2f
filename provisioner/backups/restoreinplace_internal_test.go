package backups

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Only a restore in place gives data back if it fails. A lost database has none.
func TestAdviceAfterAFailedRestore(t *testing.T) {
	t.Parallel()
	for lost, want := range map[bool]string{false: "gets its earlier data back", true: "What was restored is dropped"} {
		says := restoreKind.AdviceOf(store.Task{Request: engine.Request{RestoreID: "b_1", Lost: lost}.JSON()})
		assert.True(t, strings.Contains(says, want) && strings.Contains(says, "earlier data") != lost,
			"lost %t: %q", lost, says)
	}
}

// Applications that log in as soon as their accounts are back must not write into a database that is filled only in part.
func TestAccountsComeBackAfterLostData(t *testing.T) {
	t.Parallel()
	flow := New(&copying.Copier{}, nil).restoreWorkflow(store.Instance{}, engine.Request{Lost: true})
	step := func(name string) int {
		t.Helper()
		n := slices.IndexFunc(flow.Steps, func(s task.Step) bool { return s.Name == name })
		require.True(t, n >= 0, "no step %q", name)
		return n
	}
	assert.True(t, step("create accounts") >= step("restore"), "the accounts are created before the data is restored")
}
