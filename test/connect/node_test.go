package connect

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"mysql-broker/test/servers"
)

var installing sync.Mutex

// nodeModules is where npm has installed what node/package-lock.json names, once for all tests of a run.
func nodeModules(t *testing.T) string {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	dir := filepath.Join(servers.SharedDir(t), "node")
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules
	}
	if err := os.RemoveAll(dir + ".begun"); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir+".begun", os.DirFS("node")); err != nil {
		t.Fatal(err)
	}
	npm := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir = dir + ".begun"
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	if err := os.Rename(dir+".begun", dir); err != nil {
		t.Fatal(err)
	}
	return modules
}
