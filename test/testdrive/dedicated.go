package testdrive

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/kubernetes/kubernetestest"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/audit"
	"mysql-broker/test/kubernetes/cluster"
)

// ExpectNoRoom fails the test unless the operation fails for want of room, which users read, and operators the cause.
func ExpectNoRoom(t *testing.T, i Instance, operation string, tasks Tasks, cause string) {
	tasks.AwaitFailure(t, i.ID, time.Minute, cause)
	r := i.Poll(t, "?operation="+operation).Expect(t, http.StatusOK)
	ExpectRefusal(t, r, http.StatusOK, "no room for a dedicated server", operation)
}

// ExpectVersion fails unless the platform, the operator and applications see that version.
func (i Instance) ExpectVersion(t *testing.T, p Platform, env map[string]string, version string) {
	r := i.Fetch(t).Expect(t, http.StatusOK)
	assert.Equal(t, version, Field(r.Body, "maintenance_info", "version"), r.Raw)
	var all []struct {
		Version    string
		InstanceID string `json:"instance_id"`
	}
	p.Operator(env).Read(t, &all, "servers", "--dedicated")
	for _, server := range all {
		assert.False(t, server.InstanceID == i.ID && server.Version != version,
			"operators see version %s, want %s", server.Version, version)
	}
	b, c := i.Bound(t, nil)
	got := Read[string](t, c.Open(t), "SELECT VERSION()")
	assert.True(t, strings.HasPrefix(got, version), "applications see version %s, want %s", got, version)
	b.Unbind(t)
}

// CheckNothingLeft looks for directories and processes of dedicated servers.
func CheckNothingLeft(t *testing.T, launcherDir string) {
	instances := filepath.Join(launcherDir, "instances")
	for _, pattern := range []string{filepath.Join(instances, "*"), filepath.Join(launcherDir, "trash", "*")} {
		left, err := filepath.Glob(pattern)
		assert.True(t, err == nil && len(left) == 0, "left over: %q %v", left, err)
	}
	assert.Empty(t, Processes(t, instances), "processes are left over")
}

// HoldLaunches keeps launches from going on once they have begun, as another broker does that chooses a port just now.
func (p Platform) HoldLaunches(t *testing.T) (release func()) {
	return LockDir(t, filepath.Join(p.launcherDir, "instances"))
}

func ExpectNoProcess(t *testing.T, dir string) { assert.Empty(t, Processes(t, dir), "still running") }

// OnKubernetes is an environment like that one, but the launcher runs servers in a new namespace of the cluster, as
// deploy/kubernetes/launcher makes it. The namespace and the servers are removed when the test ends. The inspectors are
// for audits.
func OnKubernetes(t testing.TB, env map[string]string, flavour string,
	c *cluster.Shared) (map[string]string, map[string]audit.Inspector) {
	all := cluster.Binaries()
	at := slices.IndexFunc(all, func(b mysqld.Binary) bool { return b.Flavour == flavour })
	require.True(t, at >= 0, "the cluster has no image of %s", flavour)
	env = maps.Clone(env)
	maps.DeleteFunc(env, func(name, _ string) bool { return strings.HasPrefix(name, "LAUNCHER") })
	n := c.NewNamespace(t)
	maps.Copy(env, map[string]string{
		"LAUNCHER": "kubernetes", "LAUNCHER_NAMESPACE": n.Name,
		"LAUNCHER_API": c.URL, "LAUNCHER_API_CA": string(c.CA), "LAUNCHER_API_TOKEN": n.Token,
		"LAUNCHER_IMAGES":  fmt.Sprintf("%s-%s=%s", flavour, all[at].Version, cluster.ImageName(all[at])),
		"LAUNCHER_SERVICE": "node-port", "LAUNCHER_NODE_HOST": c.Node.Address(),
	})
	return env, map[string]audit.Inspector{"kubernetes": kubernetestest.Inspector{Namespace: n.Name, Call: c.Call}}
}
