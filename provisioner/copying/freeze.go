package copying

import (
	"context"
	"errors"
	"time"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// rollingBack are the connections that a task has killed and whose transactions are being rolled back.
const rollingBack task.Key[[]int64] = "rolling back"

// FreezeAccounts takes the write privileges from accounts of an instance, and waits until their last writes have ended.
func (c *Copier) FreezeAccounts(ctx context.Context, run *task.Run, i store.Instance,
	accounts []store.BindingAccount) error {
	events := c.Plans.Get(i.PlanID).Events
	return c.InSession(i, steps.InstanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
		killed, found, err := rollingBack.Recall(run)
		switch {
		case err != nil:
			return err
		case found: // all accounts are read-only now
			killed, err = s.Writes.RollingBack(ctx, killed)
		default:
			killed, err = freezeEach(ctx, s, i.Database, accounts, events)
		}
		if err == nil {
			err = rollingBack.Remember(run, killed)
		}
		if err != nil {
			return err
		}
		if len(killed) > 0 {
			return engine.Fail(run.Task, engine.RollingBack, nil)
		}
		return withoutXA(ctx, run, s, i.Database)
	})(ctx, run)
}

// freezeEach takes the write privileges from accounts, and ends their transactions. It returns the connections whose
// transactions are still being rolled back.
func freezeEach(ctx context.Context, s *mysqladmin.Session, database string, accounts []store.BindingAccount,
	events bool) (killed []int64, err error) {
	frozen := map[string]bool{}
	for _, a := range accounts {
		if err := s.Writes.Freeze(ctx, a.Account, steps.RoleOf(a), events, database); err != nil {
			return nil, err
		}
		frozen[a.Account] = true
	}
	return s.Writes.End(ctx, frozen)
}

const (
	// xaTime is how long a task waits for prepared XA transactions while nobody can write: a client that was cut off
	// between XA PREPARE and XA COMMIT can end them when it has connected again.
	xaTime = 30 * time.Second
	// xaSince is when a task began to wait for them.
	xaSince task.Key[time.Time] = "prepared since"
)

// withoutXA waits until no prepared XA transaction has changed the database, because a copy would lack its changes.
// Nobody else can have locked its tables.
func withoutXA(ctx context.Context, run *task.Run, s *mysqladmin.Session, database string) error {
	blocked, err := s.Writes.BlockedByXA(ctx, database)
	if err != nil || !blocked {
		return err
	}
	prepared, err := task.Since(run, xaSince)
	if err != nil {
		return err
	}
	if prepared > xaTime {
		return engine.Fail(run.Task, engine.PreparedTooLong, errors.New("prepared XA transactions"))
	}
	return engine.Fail(run.Task, engine.PreparedXA, nil)
}

// ThawAccounts gives accounts of an instance back the privileges that FreezeAccounts took. If restricted is true, the
// instance is over its quota, and they still may not add data.
func (c *Copier) ThawAccounts(ctx context.Context, run *task.Run, i store.Instance,
	accounts []store.BindingAccount, restricted bool) error {
	events := c.Plans.Get(i.PlanID).Events
	return c.InSession(i, steps.InstanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
		for _, a := range accounts {
			var err error
			if restricted {
				err = s.Writes.RemovePrivileges(ctx, a.Account, steps.RoleOf(a), i.Database)
			} else {
				err = s.Writes.RestorePrivileges(ctx, a.Account, steps.RoleOf(a), events, i.Database)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})(ctx, run)
}

// IsReadOnly reports whether a tenant has made the database of an instance read-only: then nobody can change it.
func (c *Copier) IsReadOnly(ctx context.Context, i store.Instance) (is bool, err error) {
	err = c.Fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) (err error) {
		is, err = admin.ReadOnly(ctx, i.Database)
		return err
	})
	return is, err
}

func (c *Copier) SetReadOnly(ctx context.Context, run *task.Run, i store.Instance, is bool) error {
	return c.InSession(i, steps.InstanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
		return s.Databases.SetReadOnly(ctx, i.Database, is)
	})(ctx, run)
}
