package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
)

// restrictedLauncher is one to which an operator grants rights.
type restrictedLauncher struct {
	launcher.Launcher
	missing string
	silent  error
	refusal error
}

func (l restrictedLauncher) MissingRights(context.Context) (string, error) {
	return l.missing, l.silent
}
func (l restrictedLauncher) Advice() string                                { return "" }
func (l restrictedLauncher) Try(_ context.Context, of launcher.Spec) error { return l.refusal }

// A launcher that lacks rights or does not respond is the only finding about it. Otherwise the plans whose servers it
// would always refuse are found, and no plan of another launcher.
func TestRightsOfLaunchers(t *testing.T) {
	t.Parallel()
	refusal := &launcher.Error{Action: launcher.GiveUp, Err: errors.New("no such storage class")}
	for name, test := range map[string]struct {
		far  restrictedLauncher
		want string // as "problem kind name: what to do"
	}{
		"has all rights": {restrictedLauncher{}, ""},
		"lacks rights":   {restrictedLauncher{missing: "grant create", refusal: refusal}, "deviating launcher far: grant create"},
		"does not respond": {restrictedLauncher{silent: errors.New("no route"), refusal: refusal}, "unreachable launcher far: make " +
			"it reachable, or add it to the configuration again; the state of the 0 resources recorded for it is unknown: no route"},
		"refuses a plan": {restrictedLauncher{refusal: fmt.Errorf("try: %w", refusal)}, "refused plan large: change the plan, " +
			"or what the launcher far has for it: try: no such storage class"},
		"has no room":          {restrictedLauncher{refusal: launcher.NoRoom(errors.New("quota"))}, ""},
		"fails for the moment": {restrictedLauncher{refusal: errors.New("no route")}, ""},
	} {
		d := doctor.New(doctor.Config{Plans: plan.Set{{Name: "shared", Kind: plan.Shared},
			{Name: "small", Kind: plan.Dedicated, Launcher: "near"}, {Name: "large", Kind: plan.Dedicated, Launcher: "far"}},
			Fleet: fleet.New(fleet.Config{Launchers: map[string]launcher.Launcher{"near": restrictedLauncher{}, "far": test.far}})})
		got := ""
		for _, f := range d.CheckLaunchers(t.Context()) {
			got += fmt.Sprintf("%s %s %s: %s", f.Problem, f.Kind, f.Name, f.ToDo)
		}
		assert.Equal(t, test.want, got, name)
	}
}
