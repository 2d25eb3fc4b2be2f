package config_test

import (
	"testing"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/plan"
)

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
