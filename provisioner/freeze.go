package provisioner

import (
	"context"
	"errors"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// rollingBack is the key under which a task remembers the connections that it has killed and whose transactions are
// being rolled back.
const rollingBack = "rolling back"

// freezeAccounts takes the write privileges from accounts of an instance, and waits until their last writes have ended.
func (p *Provisioner) freezeAccounts(ctx context.Context, run *task.Run, i store.Instance,
	accounts []store.BindingAccount) error {
	events := p.plans.Get(i.PlanID).Events
	return p.inSession(i, instanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
		var killed []int64
		found, err := run.Recall(rollingBack, &killed)
		switch {
		case err != nil:
			return err
		case found: // all accounts are read-only now
			killed, err = s.RollingBack(ctx, killed)
		default:
			killed, err = freezeEach(ctx, s, i.Database, accounts, events)
		}
		switch {
		case err != nil:
			return err
		case len(killed) > 0:
			return errors.Join(run.Remember(rollingBack, killed),
				task.Pending(time.Second, "Waiting until the last writes are rolled back"))
		}
		return withoutXA(ctx, s, i.Database)
	})(ctx, run)
}

// freezeEach takes the write privileges from accounts, and ends their transactions. It returns the connections whose
// transactions are still being rolled back.
func freezeEach(ctx context.Context, s *mysqladmin.Session, database string, accounts []store.BindingAccount,
	events bool) (killed []int64, err error) {
	frozen := map[string]bool{}
	for _, a := range accounts {
		if err := s.Freeze(ctx, a.Account, roleOf(a), events, database); err != nil {
			return nil, err
		}
		frozen[a.Account] = true
	}
	return s.EndWrites(ctx, frozen)
}

// withoutXA returns an error if a prepared XA transaction may have changed the database, because a copy would lack its
// changes.
func withoutXA(ctx context.Context, s *mysqladmin.Session, database string) error {
	blocked, err := s.BlockedByXA(ctx, database)
	if err != nil || !blocked {
		return err
	}
	return errXA
}

// errXA ends a task that would lack the changes of prepared XA transactions.
var errXA = task.Permanent("A transaction keeps tables of the service instance locked, and there are prepared XA "+
	"transactions, which cannot be moved or backed up. Commit yours or roll them back, and try again. If you have "+
	"none, tell your operator.", errors.New("prepared XA transactions"))

// thawAccounts gives accounts of an instance back the privileges that freezeAccounts took. If restricted is true, the
// instance is over its quota, and they still may not add data.
func (p *Provisioner) thawAccounts(ctx context.Context, run *task.Run, i store.Instance,
	accounts []store.BindingAccount, restricted bool) error {
	events := p.plans.Get(i.PlanID).Events
	return p.inSession(i, instanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
		for _, a := range accounts {
			if err := s.Thaw(ctx, a.Account, roleOf(a), events, restricted, i.Database); err != nil {
				return err
			}
		}
		return nil
	})(ctx, run)
}
