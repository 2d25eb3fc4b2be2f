package deploy

import (
	"path/filepath"
	"testing"
)

// shellcheck knows what shells do that nobody expects.
func TestScripts(t *testing.T) {
	t.Parallel()
	var scripts []string
	for _, pattern := range []string{".ci/run", "deploy/*/*.sh", "provisioner/launcher/*/*.sh", "test/*.sh",
		"test/*/*.sh"} {
		found, err := filepath.Glob(path(pattern))
		if err != nil || found == nil {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		scripts = append(scripts, found...)
	}
	expectSilence(t, "shellcheck", append([]string{"--severity=warning"}, scripts...)...)
}
