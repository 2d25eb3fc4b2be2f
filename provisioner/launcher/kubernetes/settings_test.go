package kubernetes_test

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/launcher"
)

// mysqld runs with the files that are left when one is made again. A new key has a new certificate, and clients trust the
// former one too, until mysqld has loaded the new one.
func TestFilesLeft(t *testing.T) {
	t.Parallel()
	p := newObjects(t)
	l := p.open(t)
	spec := p.readyServer(t, l)
	contents := func() map[string][]byte {
		var secret struct{ Data map[string][]byte }
		p.Do(t, http.MethodGet, p.secretOf(spec), nil, &secret)
		return secret.Data
	}
	before := contents()
	for _, test := range []struct {
		removed string
		changed []string
	}{
		{"my.cnf", nil},
		{"init.sql", nil},
		{"prepare.sh", nil},
		{"server-key.pem", []string{"ca.pem", "server-key.pem", "server.pem"}},
	} {
		p.merge(t, p.secretOf(spec), map[string]any{"data": map[string]any{test.removed: nil}})
		_, err := l.Launch(t.Context(), spec, func(string) {})
		says(t, err, launcher.Wait, "Attaching the volume")
		after := contents()
		assert.Len(t, after, len(before), test.removed)
		maps.DeleteFunc(after, func(name string, content []byte) bool { return bytes.Equal(content, before[name]) })
		assert.Equal(t, test.changed, slices.Sorted(maps.Keys(after)), test.removed)
	}
	assert.Contains(t, string(contents()["ca.pem"]), string(before["ca.pem"]))
}
