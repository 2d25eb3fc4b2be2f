package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/plan"
)

// launcherVariables are LAUNCHER and those of each kind.
func launcherVariables() []Variable {
	all := []Variable{{"LAUNCHER", "none", launcherMeaning()}}
	for _, v := range launchers.Variables() {
		all = append(all, Variable(v))
	}
	return all
}

func launcherMeaning() string {
	meaning := "where dedicated servers run: none (dedicated plans are not offered)"
	for _, kind := range launchers.Kinds() {
		meaning += ", " + kind.Name + " (" + kind.Where + ")"
	}
	return meaning + ", or several launchers side by side as NAME=KIND, joined by commas; the variables of each then " +
		"have its name after LAUNCHER_, such as LAUNCHER_ZONE_1_HOST of zone-1"
}

// launchers reads variables from the environment, and those that it lacks from bound services.
func (r *reader) launchers(bound services) []launchers.Named {
	fromServices, err := bound.launcherVariables()
	r.fail(err)
	all, err := launchers.Configure(r.value("LAUNCHER"), func(name string) string {
		return cmp.Or(r.getenv(name), fromServices[name])
	})
	r.fail(err)
	return all
}

// CheckPlans returns an error that names each dedicated plan whose launcher is not a configured one, cannot run its
// servers, or is not named although there are several. Where none is configured, no dedicated plan is offered, and none
// needs a launcher.
func (c Config) CheckPlans(plans plan.Set) error {
	if len(c.Launchers) == 0 {
		return nil
	}
	var names []string
	for _, l := range c.Launchers {
		names = append(names, l.Name)
	}
	configured := strings.Join(names, ", ")
	var errs []error
	for _, p := range plans {
		switch {
		case p.Launcher != "" && !slices.Contains(names, p.Launcher):
			errs = append(errs, fmt.Errorf("plan %q of the catalog has the launcher %q, but LAUNCHER is %s",
				p.Name, p.Launcher, configured))
		case p.Placement != nil && !c.kind(p.Launcher).Places:
			errs = append(errs, fmt.Errorf("plan %q of the catalog has node, storage_class, tolerations, labels or "+
				"annotations, which its launcher cannot follow: it has no nodes", p.Name))
		case p.Launcher == "" && p.Kind == plan.Dedicated && len(names) > 1:
			errs = append(errs, fmt.Errorf("plan %q of the catalog names no launcher, and LAUNCHER lists several: "+
				"add launcher: to its broker key, one of %s", p.Name, configured))
		}
	}
	return errors.Join(errs...)
}

// kind is that of the launcher of that name, or of the only one.
func (c Config) kind(name string) launcher.Kind {
	for _, l := range c.Launchers {
		for _, kind := range launchers.Kinds() {
			if kind.Name == l.Kind && (l.Name == name || name == "") {
				return kind
			}
		}
	}
	return launcher.Kind{}
}
