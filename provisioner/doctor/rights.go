package doctor

import (
	"context"

	launchers "mysql-broker/provisioner/launcher"
	"mysql-broker/store"
)

// rights reports the launchers that lack rights. Those in unseen are reported already, if they do not respond.
func (d *Doctor) rights(ctx context.Context, unseen map[string][]error) (findings []Finding) {
	for _, l := range d.fleet.Launchers() {
		checker, ok := l.Launcher.(launchers.Checker)
		if !ok {
			continue
		}
		missing, err := checker.MissingRights(ctx)
		switch {
		case err != nil && unseen[l.Name] == nil:
			findings = append(findings, unreachable(store.DedicatedServers, l.Name, err, 0))
		case missing != "":
			findings = append(findings, Finding{Problem: Deviating, Kind: launcher, Name: l.Name, ToDo: missing})
		}
	}
	return findings
}
