package config_test

import (
	"testing"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/plan"
)

func TestPlansHaveALauncher(t *testing.T) {
	t.Parallel()
	plans := plan.Set{{Name: "small", Kind: plan.Shared}, {Name: "own", Kind: plan.Dedicated},
		{Name: "here", Kind: plan.Dedicated, Launcher: "process"}, {Name: "there", Kind: plan.Dedicated, Launcher: "cluster"}}
	for _, test := range []struct{ kind, want string }{
		{"", ""},
		{"process", `plan "there" of the catalog has the launcher "cluster", but LAUNCHER is process`},
	} {
		got := ""
		if err := (config.Launcher{Kind: test.kind}).CheckPlans(plans); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("LAUNCHER %q: %q instead of %q", test.kind, got, test.want)
		}
	}
}
