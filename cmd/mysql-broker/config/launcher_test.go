package config_test

import (
	"testing"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/plan"
)

// A plan that says where its servers run needs a launcher with nodes.
func TestPlacedPlans(t *testing.T) {
	t.Parallel()
	plans := plan.Set{{Name: "own", Kind: plan.Dedicated, Placement: &plan.Placement{OwnNode: true}}}
	for kind, wanted := range map[string]bool{"kubernetes": true, "process": false} {
		cfg := config.Config{Launchers: []launchers.Named{{Name: "here", Kind: kind}}}
		if err := cfg.CheckPlans(plans); (err == nil) != wanted {
			t.Errorf("a plan with a node of its own, with the launcher %s: %v", kind, err)
		}
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
		if got != test.want {
			t.Errorf("launchers %q: %q instead of %q", test.names, got, test.want)
		}
	}
}
