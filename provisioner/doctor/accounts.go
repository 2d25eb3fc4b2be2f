package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// accounts compares the grants of the accounts on a shared server, or on the dedicated server of an instance, with the
// records. It finds accounts without a record that may use an instance's database, and accounts whose privileges do not
// match their role. The caller has read the grants before.
func (d *Doctor) accounts(ctx context.Context, server string, there map[string]bool, grants []mysqladmin.Grant,
	only string) ([]Finding, error) {
	instances, err := d.store.RecordedInstances(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("read the instances on a server: %w", err)
	}
	recorded, err := d.store.RecordedAccounts(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("read the accounts on a server: %w", err)
	}
	own, ids := map[string]store.RecordedInstance{}, map[string]store.RecordedInstance{}
	for _, i := range instances {
		if only == "" || i.ID == only {
			own[i.Database], ids[i.ID] = i, i
		}
	}
	known := map[string]bool{}
	var findings []Finding
	for _, a := range recorded {
		known[a.Account] = true
		i, here := ids[a.InstanceID]
		if !here || a.BindingID == "" || a.State != store.Ready || i.State != store.Ready {
			continue
		}
		f := Finding{Kind: store.AccountResource, Server: server, Name: a.Account, InstanceID: a.InstanceID,
			BindingID: a.BindingID}
		if !there[a.Account] {
			if only != "" { // on a shared server, accounts have their own records
				f.Problem, f.ToDo = Missing, "ask for its application to be unbound and bound again"
				findings = append(findings, f)
			}
			continue
		}
		at := slices.IndexFunc(grants, func(g mysqladmin.Grant) bool {
			return g.Account == a.Account && g.Database == i.Database
		})
		if a.GrantsDue || i.Busy || at >= 0 && grants[at].Fits(plan.Role(a.Role), i.OverSince != nil) {
			continue
		}
		f.Problem, f.ToDo = Deviating, "ask for its application to be unbound and bound again"
		if f.Repairable = server != store.DedicatedServers; f.Repairable {
			f.ToDo = "give it the privileges of its role"
		}
		findings = append(findings, f)
	}
	for _, g := range grants {
		if i, mine := own[g.Database]; mine && there[g.Account] && !known[g.Account] &&
			ours[store.AccountResource].MatchString(g.Account) {
			findings = append(findings, Finding{Problem: Stray, Kind: store.AccountResource, Server: server, Name: g.Account,
				InstanceID: i.ID, ToDo: "lock it, or drop it: it may use the instance's database, and no binding has it"})
		}
	}
	return findings, nil
}

// sharedAccounts is accounts for a shared server.
func (d *Doctor) sharedAccounts(ctx context.Context, server string, holds contents) ([]Finding, error) {
	there := map[string]bool{}
	for t := range holds.things {
		if t.kind == store.AccountResource {
			there[t.name] = true
		}
	}
	findings, err := d.accounts(ctx, server, there, holds.grants, "")
	return slices.DeleteFunc(findings, func(f Finding) bool { // an account with a record is an orphan already
		_, err := d.store.Resource(ctx, f.Kind, f.Server, f.Name)
		return f.Problem == Stray && !errors.Is(err, store.ErrNotFound)
	}), err
}

// dedicatedAccounts is accounts for the dedicated server of an instance.
func (d *Doctor) dedicatedAccounts(ctx context.Context, i store.Instance) ([]Finding, error) {
	var names []string
	var grants []mysqladmin.Grant
	err := d.fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) (err error) {
		if names, err = admin.Accounts(ctx); err == nil {
			grants, err = admin.Grants(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	return d.accounts(ctx, store.DedicatedServers, there, grants, i.ID)
}
