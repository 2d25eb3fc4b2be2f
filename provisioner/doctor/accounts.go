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

// recorded are the instances on a server and their accounts, as recorded.
type recorded struct {
	instances []store.RecordedInstance
	accounts  []store.RecordedAccount
}

// accounts compares the grants of the accounts on a shared server, or on the dedicated server of an instance (""), with
// the records. It finds accounts without a record that may use an instance's database, and accounts whose privileges do
// not match their role. The caller has read the grants before the records.
func accounts(server string, there map[string]bool, grants []mysqladmin.Grant, r recorded) (findings []Finding) {
	type of struct{ account, database string }
	granted := make(map[of]mysqladmin.Grant, len(grants))
	for _, g := range grants {
		granted[of{g.Account, g.Database}] = g
	}
	own, ids := map[string]store.RecordedInstance{}, map[string]store.RecordedInstance{}
	for _, i := range r.instances {
		own[i.Database], ids[i.ID] = i, i
	}
	known := map[string]bool{}
	for _, a := range r.accounts {
		known[a.Account] = true
		i, here := ids[a.InstanceID]
		if !here || a.BindingID == "" || a.State != store.Ready || i.State != store.Ready {
			continue
		}
		f := Finding{Kind: store.AccountResource, Server: server, Name: a.Account, InstanceID: a.InstanceID,
			BindingID: a.BindingID}
		if !there[a.Account] {
			if server == store.DedicatedServers { // on a shared server, accounts have their own records
				f.Problem, f.ToDo = Missing, "ask for its application to be unbound and bound again"
				findings = append(findings, f)
			}
			continue
		}
		g, has := granted[of{a.Account, i.Database}]
		if a.GrantsDue || i.Busy || has && g.Fits(plan.Role(a.Role), i.OverSince != nil) {
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
	return findings
}

// sharedAccounts is accounts for a shared server.
func (d *Doctor) sharedAccounts(ctx context.Context, server string, holds contents) ([]Finding, error) {
	there := map[string]bool{}
	for t := range holds.things {
		if t.kind == store.AccountResource {
			there[t.name] = true
		}
	}
	var r recorded
	var err error
	if r.instances, err = d.store.Recovery.Instances(ctx, server); err != nil {
		return nil, fmt.Errorf("read the instances on a server: %w", err)
	}
	if r.accounts, err = d.store.Recovery.Accounts(ctx, server); err != nil {
		return nil, fmt.Errorf("read the accounts on a server: %w", err)
	}
	findings := accounts(server, there, holds.grants, r)
	return slices.DeleteFunc(findings, func(f Finding) bool { // an account with a record is an orphan already
		_, err := d.store.Resources.Get(ctx, f.Kind, f.Server, f.Name)
		return f.Problem == Stray && !errors.Is(err, store.ErrNotFound)
	}), nil
}

// dedicatedAccounts is accounts for the dedicated server of an instance. It reads the records of that instance alone:
// there may be thousands of dedicated servers.
func (d *Doctor) dedicatedAccounts(ctx context.Context, instanceID string, names []string,
	grants []mysqladmin.Grant) ([]Finding, error) {
	i, err := d.store.Recovery.Instance(ctx, instanceID)
	if errors.Is(err, store.ErrNotFound) { // deleted meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read an instance: %w", err)
	}
	its, err := d.store.Recovery.AccountsOf(ctx, instanceID)
	if err != nil {
		return nil, fmt.Errorf("read the accounts of an instance: %w", err)
	}
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	return accounts(store.DedicatedServers, there, grants, recorded{[]store.RecordedInstance{i}, its}), nil
}
