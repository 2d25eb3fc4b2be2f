package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

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
	i, err := d.Store.Instances.Get(ctx, r.InstanceID)
	if errors.Is(err, store.ErrNotFound) || err == nil && i.Location.Server != r.Name {
		return nil, nil // deleted meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("read the instance: %w", err)
	}
	var holds inventory.Holdings
	var ahead time.Duration
	if err = d.Fleet.Visit(ctx, i, func(admin *mysqladmin.Server) (err error) {
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		if holds, err = inventory.Read(ctx, admin); err != nil {
			return err
		}
		at, err := admin.Clock(ctx)
		ahead = time.Until(at)
		return err
	}); err == nil {
		found, err := d.dedicatedAccounts(ctx, i.ID, holds)
		return append(found, wrongClock(r, ahead)...), err
	}
	if errors.Is(err, store.ErrUnavailable) {
		return nil, err
	}
	if d.Fleet.Starting(i.Location) {
		return nil, nil
	}
	toDo := fmt.Sprintf("see its log; a broker that runs starts it again if it has ended; if it hangs, end it with "+
		"pkill -9 -f instances/%s/mysqld.cnf, or kubectl delete pod %s-0", r.Name, strings.ReplaceAll(r.Name, "_", "-"))
	if mysqladmin.Damaged(err) {
		toDo = "its tables of accounts are damaged; a bind or unbind repairs them, and so does " + mysqladmin.RepairAccounts
	}
	return []Finding{about(Unreachable, r, fmt.Sprintf("%s: %v", toDo, err))}, nil
}

// maxAhead is how far the clock of a dedicated server may be from this host's: an error shifts what restore_to_time
// restores.
const maxAhead = time.Minute

func wrongClock(r store.Resource, ahead time.Duration) []Finding {
	if ahead.Abs() <= maxAhead {
		return nil
	}
	f := about(Deviating, r, fmt.Sprintf("set the clock of its host: it differs by %v from this one's, and "+
		"restore_to_time goes by it", ahead.Round(time.Second)))
	f.Kind = clocks
	return []Finding{f}
}
