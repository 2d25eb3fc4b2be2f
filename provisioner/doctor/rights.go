package doctor

import (
	"context"
	"errors"

	"mysql-broker/provisioner/fleet"
	launchers "mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// CheckLaunchers is the part of Examine that needs no records: what keeps launchers from running servers.
func (d *Doctor) CheckLaunchers(ctx context.Context) []Finding { return d.rights(ctx, nil) }

// rights reports the launchers that lack rights or give advice, and the plans whose servers a launcher would refuse.
// The launchers in unseen are reported already, if they do not respond.
func (d *Doctor) rights(ctx context.Context, unseen map[string][]error) (findings []Finding) {
	for _, l := range d.Fleet.Launchers() {
		checker, ok := l.Launcher.(launchers.Checker)
		if !ok {
			continue
		}
		if advice := checker.Advice(); advice != "" {
			findings = append(findings, Finding{Problem: Limited, Kind: launcher, Name: l.Name, ToDo: advice})
		}
		missing, err := checker.MissingRights(ctx)
		switch {
		case err != nil && unseen[l.Name] == nil:
			findings = append(findings, unreachable(store.DedicatedServers, l.Name, err, 0))
		case missing != "":
			findings = append(findings, Finding{Problem: Deviating, Kind: launcher, Name: l.Name, ToDo: missing})
		case err == nil:
			findings = append(findings, d.refused(ctx, l)...)
		}
	}
	return findings
}

// refused reports the plans whose servers the launcher would refuse. A lack of room may pass, and is not reported.
func (d *Doctor) refused(ctx context.Context, l fleet.Launcher) (findings []Finding) {
	for _, p := range d.Plans {
		if p.Kind != plan.Dedicated {
			continue
		}
		if its, err := d.Fleet.Launcher(p.Launcher); err != nil || its.Name != l.Name {
			continue // another launcher has its servers
		}
		err := l.Try(ctx, p)
		refused, ok := errors.AsType[*launchers.Error](err)
		if ok && refused.Action == launchers.GiveUp && !errors.Is(err, launchers.ErrNoRoom) {
			findings = append(findings, Finding{Problem: Refused, Kind: dedicatedPlan, Name: p.Name,
				ToDo: "change the plan, or what the launcher " + l.Name + " has for it: " + err.Error()})
		}
	}
	return findings
}
