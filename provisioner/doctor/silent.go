package doctor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"mysql-broker/provisioner/inventory"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// logins is how many dedicated servers the doctor logs in to at the same time.
const logins = 8

// silent finds the dedicated servers of ready instances that do not accept the broker's login, and compares the
// accounts of the others.
func (d *Doctor) silent(ctx context.Context, running []store.Resource) ([]Finding, error) {
	var mu sync.Mutex
	var findings []Finding
	var errs []error
	var asking errgroup.Group
	asking.SetLimit(logins)
	for _, r := range running {
		asking.Go(func() error {
			found, err := d.hear(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			findings = append(findings, found...)
			errs = append(errs, err)
			return nil
		})
	}
	_ = asking.Wait() // errs has all of them
	return findings, errors.Join(errs...)
}

// hear returns a finding if a dedicated server does not answer, otherwise the findings about its accounts.
func (d *Doctor) hear(ctx context.Context, r store.Resource) ([]Finding, error) {
	i, err := d.store.Instances.Get(ctx, r.InstanceID)
	if errors.Is(err, store.ErrNotFound) || err == nil && i.Location.Server != r.Name {
		return nil, nil // deleted meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("read the instance: %w", err)
	}
	var holds inventory.Holdings
	if err = d.fleet.Visit(ctx, i, func(admin *mysqladmin.Server) (err error) {
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		holds, err = inventory.Read(ctx, admin)
		return err
	}); err == nil {
		return d.dedicatedAccounts(ctx, i.ID, holds)
	}
	if errors.Is(err, store.ErrUnavailable) {
		return nil, err
	}
	if d.fleet.Starting(i.Location) {
		return nil, nil
	}
	f := about(Unreachable, r)
	f.ToDo = fmt.Sprintf("see its log; a broker that runs starts it again if it has ended: %v", err)
	if mysqladmin.Damaged(err) {
		f.ToDo = fmt.Sprintf("its tables of accounts are damaged; a bind or unbind repairs them, and so does %s: %v",
			mysqladmin.RepairAccounts, err)
	}
	return []Finding{f}, nil
}
