package model

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A phase that is not possible is none of the keys, over which the rules go.
func TestPhases(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		got, want phases
	}{
		{"ready", (&instance{phases: only(ready)}).possible(), only(ready)},
		{"ready, with a late update", (&instance{phases: only(ready), latePlans: []string{"shared-small"}}).possible(),
			phases{ready: true, updating: true}},
		{"deleting", (&instance{phases: only(deleting)}).possible(), phases{deleting: true, absent: true, failed: true}},
		{"a backup of what is ready", only(ready).afterSilence(backUp), phases{ready: true, backing: true}},
		{"a create of what is there", only(ready).afterSilence(create), only(ready)},
		{"a create of what is absent", only(absent).afterSilence(create),
			phases{absent: true, creating: true, ready: true, failed: true}},
		{"an update of what is being deleted", only(deleting).afterSilence(update), only(deleting)},
		{"a deletion of what is ready", only(ready).afterSilence(remove),
			phases{ready: true, deleting: true, absent: true, failed: true}},
	} {
		assert.Equal(t, test.want, test.got, test.name)
	}
}
