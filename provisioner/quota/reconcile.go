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
	// freshTime is how old a measurement may be that accounts are restricted or released for. A broker that was paused
	// has an older one.
	freshTime = 15 * time.Second
	// reconcileTimeout bounds how long an account's privileges are being changed, for which requests wait. It is less than
	// they wait for a lock: see store.Store.InTx.
	reconcileTimeout = 3 * time.Second
	// reconcilePage is how many accounts are read at a time.
	reconcilePage = 100
)

// releaseAll is for when quotas mean nothing any more.
func (g *Guard) releaseAll(ctx context.Context, of side) error {
	servers := []string{store.DedicatedServers}
	if !of.dedicated {
		servers = g.Fleet.Shared.Names()
	}
	var errs []error
	for _, server := range servers {
		over, err := g.Store.OverQuota(ctx, server)
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

// change records that an instance is over its quota, or is not any more, and reconciles its accounts. used was seen at
// that time, and is compared with the quota that the instance has now. An error of the settling is told in the log
// only: the end of the round tries again.
func (g *Guard) change(ctx context.Context, m store.Measured, used int64, seen time.Time) error {
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
		if age := time.Since(seen); age > freshTime {
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
		g.Logger.Info("a service instance is not held to its quota any more, as none is: its accounts may add data",
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

// facts are what a log line tells of an instance.
func (g *Guard) facts(m store.Measured, used int64) []slog.Attr {
	has := g.Plans.Get(m.PlanID)
	return []slog.Attr{slog.String("instance_id", m.InstanceID), slog.String("plan", has.Name), slog.Int64("bytes", used),
		slog.Int64("quota_bytes", has.Quota()), slog.Int64("percent", used*100/has.Quota())}
}

// errBusy means that an operation is in progress, in which the account or the server may be changed, or that another
// transaction holds the instance.
var errBusy = errors.New("an operation is in progress")

// reconcileAll gives the accounts that are due, of one instance or of all ("") on a kind of servers, the privileges
// that they should have. Servers that do not answer once are not asked again. What could not be done is told in the
// log, and left to the next round.
func (g *Guard) reconcileAll(ctx context.Context, dedicated bool, instanceID string) error {
	silent := map[string]bool{}
	left := 0
	var first error
	for after := (store.DueAccount{}); ; {
		due, err := g.Store.DueAccounts(ctx, dedicated, instanceID, after, reconcilePage)
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
		g.Logger.Warn("could not restrict or release some accounts; the next round tries again", "count", left,
			"error", first)
	}
	return nil
}

// settle changes an account. The instance stays locked meanwhile, so that no operation on it can begin; one that began
// because this process was paused and its lock lost loses the session lock. That is released afterwards, since it may
// take longer than others wait for the lock.
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
		active, err := tx.ActiveTasks(ctx, i.ID)
		if err != nil {
			return fmt.Errorf("look for tasks in progress: %w", err)
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
			err = session.RemoveWritePrivileges(ctx, d.Account, plan.Role(d.Role), i.Database)
		} else {
			err = session.RestoreWritePrivileges(ctx, d.Account, plan.Role(d.Role), events, i.Database)
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
