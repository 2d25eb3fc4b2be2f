package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mysql-broker/provisioner/inventory"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// accounts compares the accounts on a shared server, or on the dedicated server of an instance (""), with the records.
// It finds accounts without a record that may use an instance's database, and accounts that are locked or whose
// privileges do not match their role. It also finds databases with a mixture that is not recorded: their
// accounts are to stay as they are.
func accounts(server string, holds inventory.Holdings, instances []store.RecordedInstance,
	recorded []store.RecordedAccount) (findings []Finding) {
	mixed := map[string]bool{}
	for _, i := range instances {
		backup, is := holds.Mixed[i.Database]
		if !is || i.Busy || i.State != store.Ready {
			continue
		}
		mixed[i.ID] = true
		findings = append(findings, Finding{Problem: Deviating, Kind: store.DatabaseResource, Server: server,
			Name: i.Database, InstanceID: i.ID, ToDo: fmt.Sprintf("run mysql-broker backups import and mysql-broker backups "+
				"restore %s %s: a restore that is not recorded has left a mixture", backup, i.ID)})
	}
	known, strays := holds.CompareAccounts(instances, recorded)
	for _, a := range known {
		i := a.Instance
		if a.BindingID == "" || a.State != store.Ready || i.State != store.Ready {
			continue
		}
		f := Finding{Kind: store.AccountResource, Server: server, Name: a.Account, InstanceID: a.InstanceID,
			BindingID: a.BindingID, ToDo: "ask for its application to be unbound and bound again"}
		locked := !a.Expired && slices.Contains(holds.Locked, a.Account)
		switch {
		case !a.There && server == store.DedicatedServers: // on a shared server, accounts have their own records
			f.Problem = Missing
		case !a.There || a.GrantsDue || i.Busy || mixed[i.ID] ||
			!locked && a.Grant != nil && a.Grant.Fits(plan.Role(a.Role), i.OverSince != nil):
			continue
		default:
			f.Problem = Deviating
			f.Repairable = server != store.DedicatedServers
			switch {
			case locked:
				f.ToDo = "unlock it: its application cannot log in"
			case f.Repairable:
				f.ToDo = "give it the privileges of its role"
			}
		}
		findings = append(findings, f)
	}
	for _, a := range strays {
		findings = append(findings, Finding{Problem: Stray, Kind: store.AccountResource, Server: server, Name: a.Account,
			InstanceID: a.Instance.ID, ToDo: "lock it, or drop it: it may use the instance's database, and no binding has it"})
	}
	return findings
}

func (d *Doctor) sharedAccounts(ctx context.Context, server string, holds contents) ([]Finding, error) {
	instances, err := d.Store.Recovery.Instances(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("read the instances on a server: %w", err)
	}
	recorded, err := d.Store.Recovery.Accounts(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("read the accounts on a server: %w", err)
	}
	findings := accounts(server, holds.holdings, instances, recorded)
	return slices.DeleteFunc(findings, func(f Finding) bool { // an account with a record is an orphan already
		_, err := d.Store.Resources.Get(ctx, f.Kind, f.Server, f.Name)
		return f.Problem == Stray && !errors.Is(err, store.ErrNotFound)
	}), nil
}

// dedicatedAccounts is accounts for the dedicated server of an instance. It reads the records of that instance alone:
// there may be thousands of dedicated servers.
func (d *Doctor) dedicatedAccounts(ctx context.Context, instanceID string,
	holds inventory.Holdings) ([]Finding, error) {
	i, err := d.Store.Recovery.Instance(ctx, instanceID)
	if errors.Is(err, store.ErrNotFound) { // deleted meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read an instance: %w", err)
	}
	its, err := d.Store.Recovery.AccountsOf(ctx, instanceID)
	if err != nil {
		return nil, fmt.Errorf("read the accounts of an instance: %w", err)
	}
	return accounts(store.DedicatedServers, holds, []store.RecordedInstance{i}, its), nil
}
