package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/plan"
)

// On Cloud Foundry, user-provided services have the variables of launchers. The environment wins.
func TestLauncherOfAService(t *testing.T) {
	t.Parallel()
	const token = "t0ken"
	env := map[string]string{"LAUNCHER": "kubernetes", "LAUNCHER_SERVICE": "node-port",
		"LAUNCHER_NODE_HOST": "nodes.example.com", "VCAP_SERVICES": `{"user-provided": [{"name": "mysql-broker-kubernetes",
		"credentials": {"namespace": "servers", "images": "mysql-9.7=mysql@sha256:1", "service": "cluster",
		"api": "https://kubernetes.example.com:6443", "api_token": "` + token + `"}}]}`}
	read := func() (config.Config, error) {
		return config.ForDoctor.Read(func(name string) string { return env[name] })
	}
	cfg, err := read()
	require.True(t, !strings.Contains(err.Error(), "LAUNCHER") && len(cfg.Launchers) == 1,
		"%d launchers, %v", len(cfg.Launchers), err)
	k := cfg.Launchers[0].Configured.(kubernetes.Config)
	assert.True(t, k.Namespace == "servers" && k.Credentials.Token == token && k.Service == kubernetes.NodePort,
		"configured in %q with %q", k.Namespace, k.Service)
	env["LAUNCHER"] = "process,zone-1=kubernetes"
	env["LAUNCHER_ZONE_1_SERVICE"], env["LAUNCHER_ZONE_1_NODE_HOST"] = "node-port", "nodes.example.com"
	delete(env, "LAUNCHER_SERVICE")
	delete(env, "LAUNCHER_NODE_HOST")
	env["VCAP_SERVICES"] = strings.ReplaceAll(env["VCAP_SERVICES"], "mysql-broker-kubernetes", "mysql-broker-kubernetes-zone-1")
	cfg, err = read()
	assert.True(t, !strings.Contains(err.Error(), "LAUNCHER") && len(cfg.Launchers) == 2 &&
		cfg.Launchers[1].Name == "zone-1", "%d launchers, %v", len(cfg.Launchers), err)
	env["VCAP_SERVICES"] = strings.ReplaceAll(env["VCAP_SERVICES"], "api_token", "tokenn")
	_, err = read()
	assert.ErrorContains(t, err, `the key "tokenn", and there is no variable LAUNCHER_TOKENN`)
	assert.NotContains(t, err.Error(), token)
}

// A plan with keys for Kubernetes needs a launcher for Kubernetes.
func TestPlacedPlans(t *testing.T) {
	t.Parallel()
	plans := plan.Set{{Name: "own", Kind: plan.Dedicated, Placement: &plan.Placement{OwnNode: true}}}
	for kind, wanted := range map[string]bool{"kubernetes": true, "process": false} {
		cfg := config.Config{Launchers: []launchers.Named{{Name: "here", Kind: kind}}}
		err := cfg.CheckPlans(plans)
		assert.Equal(t, wanted, err == nil, "a plan with a node of its own, with the launcher %s: %v", kind, err)
	}
}

func TestPlansHaveALauncher(t *testing.T) {
	t.Parallel()
	plans := plan.Set{{Name: "small", Kind: plan.Shared}, {Name: "own", Kind: plan.Dedicated},
		{Name: "here", Kind: plan.Dedicated, Launcher: "process"}, {Name: "there", Kind: plan.Dedicated, Launcher: "cluster"}}
	for _, test := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"process"}, `plan "there" of the catalog has the launcher "cluster", but LAUNCHER is process`},
		{[]string{"process", "cluster"}, `plan "own" of the catalog names no launcher, and LAUNCHER lists several: ` +
			`add launcher: to its broker key, one of process, cluster`},
	} {
		var cfg config.Config
		for _, name := range test.names {
			cfg.Launchers = append(cfg.Launchers, launchers.Named{Name: name})
		}
		got := ""
		if err := cfg.CheckPlans(plans); err != nil {
			got = err.Error()
		}
		assert.Equal(t, test.want, got, "launchers %q", test.names)
	}
}
