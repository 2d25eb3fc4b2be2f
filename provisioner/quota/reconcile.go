package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

const (
	// freshTime is how old a measurement may be when privileges are changed because of it. A broker that was paused may
	// have an older one.
	freshTime = 15 * time.Second
	// reconcileTimeout bounds a change of an account's privileges. Requests wait for it, so it is less than their timeout
	// for a lock: see store.Store.InTx.
	reconcileTimeout = 3 * time.Second
	// reconcilePage is how many accounts are read at a time.
	reconcilePage = 100
)

// releaseAll records, while quotas are off, that no instance is over its quota.
func (g *Guard) releaseAll(ctx context.Context, of *side) error {
	servers := []string{store.DedicatedServers}
	if !of.dedicated {
		servers = g.Fleet.Shared.Names()
	}
	var errs []error
	for _, server := range servers {
		over, err := g.Store.Usage.OverQuota(ctx, server)
		if err != nil {
			return fmt.Errorf("read which instances are over their quota: %w", err)
		}
		for _, m := range over {
			err := g.change(ctx, m, 0, time.Now())
			if ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
				return err
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("instance %q: %w", m.InstanceID, err))
			}
		}
	}
	return errors.Join(errs...)
}

// change records that an instance is over its quota, or no longer is, and reconciles its accounts. used was measured at
// the time measured, and is compared with the quota that the instance has now. Accounts that cannot be reconciled are
// logged, and retried at the end of the round.
func (g *Guard) change(ctx context.Context, m store.Measured, used int64, measured time.Time) error {
	changed := false
	err := g.Store.InTx(ctx, func(tx *store.Tx) error {
		i, err := tx.LockInstance(ctx, m.InstanceID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock the instance: %w", err)
		}
		quota, over := g.Plans.Get(i.PlanID).Quota(), i.OverSince != nil
		before := 0
		if over {
			before = Over
		}
		changed = i.Database == m.Database && i.State == store.Ready && quota > 0 &&
			over != (Level(used, quota, before) == Over)
		if !changed {
			return nil
		}
		if age := time.Since(measured); age > freshTime {
			return fmt.Errorf("the measurement is %v old", age)
		}
		m.PlanID, m.OverSince = i.PlanID, i.OverSince
		tx.SetOver(i.ID, !over)
		return nil
	})
	if err != nil || !changed {
		return err
	}
	if g.Interval == 0 {
		g.Logger.Info("quotas are off: the accounts of a service instance that was over its quota may add data",
			"instance_id", m.InstanceID)
	} else if m.OverSince == nil {
		g.Logger.LogAttrs(ctx, slog.LevelWarn, "a service instance is over its quota: its accounts may add no data until it "+
			"is below the restoring mark", append(g.facts(m, used), slog.Int64("restored_below_percent", plan.RestoreBelow))...)
	} else {
		g.Logger.LogAttrs(ctx, slog.LevelInfo, "a service instance is below its quota again: its accounts may add data",
			g.facts(m, used)...)
	}
	fault.Point("quota", "recorded")
	return g.reconcileAll(ctx, m.Dedicated, m.InstanceID)
}

// facts are the attributes of a log line about an instance.
func (g *Guard) facts(m store.Measured, used int64) []slog.Attr {
	has := g.Plans.Get(m.PlanID)
	return []slog.Attr{slog.String("instance_id", m.InstanceID), slog.String("plan", has.Name), slog.Int64("bytes", used),
		slog.Int64("quota_bytes", has.Quota()), slog.Int64("percent", used*100/has.Quota())}
}

// errBusy means that an operation is in progress, which may change the account or stop the server.
var errBusy = errors.New("an operation is in progress")

// reconcileAll gives the right privileges to the accounts that are due: those of one instance or, if instanceID is "",
// all on dedicated or on shared servers. If a server does not answer, it skips the other accounts there. It logs what
// it could not do, and leaves that to the next round.
func (g *Guard) reconcileAll(ctx context.Context, dedicated bool, instanceID string) error {
	silent := map[string]bool{}
	left := 0
	var first error
	for after := (store.DueAccount{}); ; {
		due, err := g.Store.Bindings.DueAccounts(ctx, dedicated, instanceID, after, reconcilePage)
		if err != nil {
			return fmt.Errorf("read which accounts are due: %w", err)
		}
		if len(due) == 0 {
			break
		}
		for _, d := range due {
			if silent[d.Server] {
				left++
				continue
			}
			err := g.reconcile(ctx, d)
			if ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
				return err
			}
			if err == nil || errors.Is(err, errBusy) || errors.Is(err, store.ErrLocked) {
				continue
			}
			silent[d.Server] = mysqladmin.Unreachable(err)
			if left++; first == nil {
				first = fmt.Errorf("account %s of instance %q: %w", d.Account, d.InstanceID, err)
			}
		}
		after = due[len(due)-1]
	}
	if left > 0 {
		g.Logger.Warn("could not change the privileges of some accounts; the next round tries again", "count", left,
			"error", first)
	}
	return nil
}

// reconcile changes the privileges of an account. The instance stays locked in PostgreSQL meanwhile, so that no
// operation begins. If this process is paused and loses that lock, the next operation takes the session lock from it.
// The session lock is released after the transaction, because the release may take longer than requests wait for the
// instance.
func (g *Guard) reconcile(ctx context.Context, d store.DueAccount) error {
	var session *fleet.Session
	err := g.Store.InTx(ctx, func(tx *store.Tx) error {
		i, err := tx.LockInstance(ctx, d.InstanceID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock the instance: %w", err)
		}
		if i.FrozenSince != nil { // since it was listed
			return nil
		}
		active, err := tx.ActiveTasks(ctx, i.ID)
		if err != nil {
			return fmt.Errorf("list the tasks in progress: %w", err)
		}
		if there := (store.Beginning{Active: active}); there.Task("") != nil || there.Task(d.BindingID) != nil {
			return errBusy
		}
		events := g.Plans.Get(i.PlanID).Events
		ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
		defer cancel()
		session, err = g.Fleet.OpenSession(ctx, i,
			fleet.Lock{Key: fleet.BindingLock(i.ID, d.BindingID), Alive: func() error { return tx.Alive(ctx) }})
		if err != nil {
			return err
		}
		if i.OverSince != nil {
			err = session.Writes.RemovePrivileges(ctx, d.Account, plan.Role(d.Role), i.Database)
		} else {
			err = session.Writes.RestorePrivileges(ctx, d.Account, plan.Role(d.Role), events, i.Database)
		}
		if err == nil {
			tx.SetReconciled(d.Account, events)
		}
		return err
	})
	if session != nil {
		err = errors.Join(err, session.Close())
	}
	return err
}
