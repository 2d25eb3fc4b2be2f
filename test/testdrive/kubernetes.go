package testdrive

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher/kubernetes/kubernetestest"
	"mysql-broker/provisioner/launcher/launchertest"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/kubernetes/cluster"
)

// OnKubernetes is an environment like that one, but each of these launchers runs servers in a new namespace of the
// cluster, as deploy/kubernetes/launcher makes it. The names are "" alone, or two, which get the plans that Launchers
// gives them. Namespaces and servers are removed when the test ends. The inspectors are for audits.
func OnKubernetes(t testing.TB, env map[string]string, flavour string, c *cluster.Shared,
	names ...string) (map[string]string, map[string]launchertest.Inspector) {
	t.Helper()
	all := cluster.Binaries()
	at := slices.IndexFunc(all, func(b mysqld.Binary) bool { return b.Flavour == flavour })
	if at < 0 {
		t.Fatalf("the cluster has no image of %s", flavour)
	}
	env = maps.Clone(env)
	maps.DeleteFunc(env, func(name, _ string) bool { return strings.HasPrefix(name, "LAUNCHER") })
	inspectors := map[string]launchertest.Inspector{}
	var list []string
	for _, name := range names {
		n := c.NewNamespace(t)
		prefix, entry := "LAUNCHER_", "kubernetes"
		if name != "" {
			prefix, entry = launcherPrefix(name), name+"=kubernetes"
		}
		for variable, value := range map[string]string{
			"NAMESPACE": n.Name,
			"API":       c.URL, "API_CA": string(c.CA), "API_TOKEN": n.Token,
			"IMAGES":  fmt.Sprintf("%s-%s=%s", flavour, all[at].Version, cluster.ImageName(all[at])),
			"SERVICE": "node-port", "NODE_HOST": c.Node.Address(),
		} {
			env[prefix+variable] = value
		}
		list = append(list, entry)
		inspectors[cmp.Or(name, "kubernetes")] = kubernetestest.Inspector{Namespace: n.Name, Call: c.Call}
	}
	env["LAUNCHER"] = strings.Join(list, ",")
	if len(names) > 1 {
		env["CATALOG"] = catalogFor(t, env["CATALOG"], names)
	}
	return env, inspectors
}
