package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/store"
)

// A deletion is tried again only where it left the instance or binding.
func TestFailedToDelete(t *testing.T) {
	t.Parallel()
	deletion := store.Task{Kind: store.Deprovision}
	unbind := store.Task{Kind: store.Unbind, BindingID: "b"}
	instance := func(state string) store.Beginning { return store.Beginning{Instance: store.Instance{State: state}} }
	binding := func(state string) store.Beginning { return store.Beginning{Binding: &store.Binding{State: state}} }
	busy, other := binding(store.Ending), binding(store.Ending)
	busy.Active, other.Active = []store.Task{{ID: 7}}, []store.Task{{ID: 7, BindingID: "another"}}
	for what, test := range map[string]struct {
		there  store.Beginning
		failed store.Task
		says   string // "" if it may be tried again
	}{
		"as it was left":              {instance(store.DeleteFailed), deletion, ""},
		"the instance works again":    {instance(store.Ready), deletion, `the service instance is "ready"`},
		"a binding as it was left":    {binding(store.Ending), unbind, ""},
		"the binding works again":     {binding(store.Ready), unbind, `the service binding is "ready"`},
		"the binding is gone":         {store.Beginning{}, unbind, store.ErrNotFound.Error()},
		"the instance is busy":        {busy, unbind, "task_7 is in progress"},
		"another binding is changing": {other, unbind, ""},
	} {
		err := failedToDelete(test.there, test.failed)
		assert.False(t, (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says),
			"%s: %v", what, err)
	}
}
