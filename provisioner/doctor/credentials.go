package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mysql-broker/provisioner/credhub"
	"mysql-broker/store"
)

const (
	// credHubTime limits reading the names in CredHub.
	credHubTime = 20 * time.Second
	// credHubGrace is for how long the broker may still be deleting credentials of a binding that is gone.
	credHubGrace = 5 * time.Minute
)

// credentials compares what is recorded to be in CredHub with what is there, also the values. Like that of a server,
// its contents are read twice, each time before the records.
func (d *Doctor) credentials(ctx context.Context) ([]Finding, error) {
	first, err := d.compareCredHub(ctx)
	if err != nil || len(first) == 0 {
		return first, err
	}
	second, err := d.compareCredHub(ctx)
	return slices.DeleteFunc(second, func(f Finding) bool {
		return !slices.ContainsFunc(first, func(before Finding) bool { return before.Identity() == f.Identity() })
	}), err
}

func (d *Doctor) compareCredHub(ctx context.Context) (findings []Finding, err error) {
	there, unseen, err := d.inCredHub(ctx)
	if err != nil {
		return nil, err
	}
	recorded := 0
	err = d.Store.CredHub.Each(ctx, func(page []store.RecordedCredHub) error {
		recorded += len(page)
		for _, r := range page {
			f := Finding{Kind: credential, Name: r.Name, InstanceID: r.InstanceID, BindingID: r.BindingID}
			if unseen == nil && r.Ready && there[r.Name] {
				var holds bool
				if holds, unseen = d.CredHub.Holds(ctx, r.Name, r.Stored, r.Reader); unseen == nil && !holds {
					f.Problem, f.Repairable = Deviating, true
					f.ToDo = "store it again: it is not what the broker has stored, or its reader may not read it"
					if d.replacedPassword(ctx, r) {
						f.Repairable = false
						f.ToDo = "run mysql-broker rotate-bindings: the recorded password is not that of the account"
					}
					findings = append(findings, f)
				}
			}
			switch {
			case unseen != nil:
			case !there[r.Name] && r.Ready:
				f.Problem, f.Repairable, f.ToDo = Missing, true, "store it again"
				findings = append(findings, f)
			case r.Ended != nil && *r.Ended > credHubGrace:
				f.Problem, f.Age = Orphan, *r.Ended
				f.ToDo = "read in the broker's log why CredHub does not let the broker delete it"
				findings = append(findings, f)
			}
			delete(there, r.Name)
		}
		return nil
	})
	if unseen != nil && recorded > 0 {
		return []Finding{{Problem: Unreachable, Kind: credHub, Name: credHub, ToDo: fmt.Sprintf("make it reachable, or add "+
			"it to the configuration again; the state of the %d credentials recorded for it is unknown: %v", recorded,
			unseen)}}, err
	}
	for name := range there {
		findings = append(findings, Finding{Problem: Unrecorded, Kind: credential, Name: name,
			ToDo: "find out whose it is: another broker's, or this one's from before its PostgreSQL was restored; if it is " +
				"nobody's, `credhub delete -n " + name + "`"})
	}
	return findings, err
}

// replacedPassword reports whether the account of a binding has another password than is recorded, as after PostgreSQL
// was restored from a backup. The one in CredHub may be right then.
func (d *Doctor) replacedPassword(ctx context.Context, r store.RecordedCredHub) bool {
	i, err := d.Store.Instances.Get(ctx, r.InstanceID)
	if err != nil {
		return false
	}
	b, err := d.Store.Bindings.Get(ctx, r.InstanceID, r.BindingID)
	return err == nil && d.Fleet.RefusesPassword(ctx, i, b)
}

// inCredHub returns the names of the credentials in CredHub, also under paths that were configured before. unseen says
// why CredHub cannot list them.
func (d *Doctor) inCredHub(ctx context.Context) (there map[string]bool, unseen, err error) {
	if d.CredHub == nil {
		return nil, errNotConfigured, nil
	}
	paths, err := d.Store.CredHub.Paths(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("read where credentials are: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, credHubTime)
	defer cancel()
	there = map[string]bool{}
	for _, path := range append(paths, d.CredHub.Path()) {
		names, unseen := d.CredHub.Names(within, path)
		if unseen != nil {
			return nil, unseen, nil
		}
		for _, name := range names {
			if name != credhub.ProbeName(credhub.PathOf(name)) { // which may be deeper than path
				there[name] = true
			}
		}
	}
	return there, nil, nil
}
