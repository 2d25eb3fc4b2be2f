package connect

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mysql-broker/test/servers"
)

// nodeModules is where npm has installed what node/package-lock.json names, once for all tests of a run.
func nodeModules(t *testing.T) string {
	t.Helper()
	return filepath.Join(servers.Made(t, "node", func(path string) error {
		if err := os.CopyFS(path, os.DirFS("node")); err != nil {
			return err
		}
		npm := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
		npm.Dir = path
		if out, err := npm.CombinedOutput(); err != nil {
			return fmt.Errorf("npm ci: %w\n%s", err, out)
		}
		return nil
	}), "node_modules")
}
