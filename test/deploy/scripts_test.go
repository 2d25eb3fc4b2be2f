package deploy

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// shellcheck knows what shells do that nobody expects.
func TestScripts(t *testing.T) {
	t.Parallel()
	var scripts []string
	for _, pattern := range []string{".ci/run", "deploy/*/*.sh", "provisioner/launcher/*/*.sh", "test/*.sh",
		"test/*/*.sh"} {
		found, err := filepath.Glob(path(pattern))
		require.True(t, err == nil && found != nil, "%s: %v, %v", pattern, found, err)
		scripts = append(scripts, found...)
	}
	expectSilence(t, "shellcheck", append([]string{"--severity=warning"}, scripts...)...)
}
