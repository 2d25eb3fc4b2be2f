package copying

import (
	"context"
	"io"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// A move waits for the shared server that does not answer, and not for one if a launcher does not, or a step takes too
// long.
func TestSilenceAtTheNewPlace(t *testing.T) {
	t.Parallel()
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		at   store.Location
		want error
	}{
		"a shared server":      {t.Context(), store.SharedLocation("a"), task.Unreachable(io.EOF)},
		"after a timeout":      {late, store.SharedLocation("a"), io.EOF},
		"a launcher's own API": {t.Context(), store.DedicatedLocation("here", "d_1"), io.EOF},
	} {
		m := move{to: store.Instance{Location: test.at}}
		err := m.unreached(test.ctx, &task.Run{}, io.EOF)
		assert.True(t, reflect.DeepEqual(err, test.want), "%s: %#v", name, err)
	}
}
