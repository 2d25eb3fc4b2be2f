package config

import (
	"errors"
	"fmt"

	"mysql-broker/provisioner/plan"
)

// CheckPlans returns an error that names each dedicated plan whose launcher is not the configured one. Where none is
// configured, no dedicated plan is offered, and none needs a launcher.
func (l Launcher) CheckPlans(plans plan.Set) error {
	var errs []error
	for _, p := range plans {
		if l.Kind != "" && p.Launcher != "" && p.Launcher != l.Kind {
			errs = append(errs, fmt.Errorf("plan %q of the catalog has the launcher %q, but LAUNCHER is %s",
				p.Name, p.Launcher, l.Kind))
		}
	}
	return errors.Join(errs...)
}
