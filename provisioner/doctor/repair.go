package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

const (
	// repairTimeout bounds a repair.
	repairTimeout = 40 * time.Second
	// makeTimeout bounds the repair of an account, while requests wait. It is less than they wait for a lock: see
	// store.Store.InTx.
	makeTimeout = 3 * time.Second
)

// errChanged says that an operation or another doctor has changed what was found.
var errChanged = errors.New("it has changed since it was found; run doctor again")

// errHeld says that the records are older than the servers.
var errHeld = errors.New("PostgreSQL was restored from a backup; run `mysql-broker recover` first")

// Repair repairs a repairable finding, if it still applies, and says briefly what it has done. It repairs nothing while
// PostgreSQL is held.
func (d *Doctor) Repair(ctx context.Context, f Finding) (done string, err error) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	if err := d.Store.Recovery.Held(ctx); errors.Is(err, store.ErrHeld) {
		return "", errHeld
	} else if err != nil {
		return "", err
	}
	if err := d.Store.Audit.Record(ctx, "repair", f.InstanceID, f.BindingID, f.Name); err != nil {
		return "", fmt.Errorf("record the repair for the audit: %w", err)
	}
	switch {
	case !f.Repairable:
		return "", errors.New("it cannot be repaired by itself")
	case f.Problem == Blocked:
		return d.unblock(ctx, f)
	case f.Kind == credential:
		return "a running broker stores it within a minute", d.Store.CredHub.Check(ctx, f.Name)
	case f.Problem == Missing:
		return "made again", d.makeAccount(ctx, f)
	case f.Problem == Deviating:
		return "set as its binding says", d.makeAccount(ctx, f)
	}
	r, err := d.Store.Resources.Get(ctx, f.Kind, f.Server, f.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("read its record: %w", err)
	}
	if err != nil || r.Live {
		return "", errChanged
	}
	switch f.Kind {
	case store.DedicatedResource:
		return "destroyed", d.Fleet.Destroy(ctx, store.DedicatedLocation(r.Launcher, r.Name))
	case store.DatabaseResource:
		return "dropped", d.onServer(ctx, f, orphanLock(f), noLease, func(s *mysqladmin.Session) error {
			return s.Databases.Drop(ctx, f.Name)
		})
	}
	return d.dropAccount(ctx, f)
}

// dropAccount drops an orphan. If the instance still exists and the account is the definer of a view, trigger, routine
// or event there, the account is kept, locked, and recorded as retired. Until that is recorded, it stays an orphan.
func (d *Doctor) dropAccount(ctx context.Context, f Finding) (done string, err error) {
	i, err := d.Store.Instances.Get(ctx, f.InstanceID)
	gone := errors.Is(err, store.ErrNotFound)
	if err != nil && !gone {
		return "", fmt.Errorf("read its instance: %w", err)
	}
	kept := false
	err = d.onServer(ctx, f, orphanLock(f), noLease, func(s *mysqladmin.Session) (err error) {
		if gone {
			return s.Accounts.Drop(ctx, f.Name)
		}
		kept, err = s.Accounts.Revoke(ctx, f.Name, i.Database)
		return err
	})
	if err != nil || !kept {
		return "dropped", err
	}
	err = d.Store.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.LockInstance(ctx, i.ID); err != nil {
			return err
		}
		tx.RecordRetiredAccount(i.ID, f.Name)
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		err = errChanged
	}
	return "locked, as objects in the database are defined by it", err
}

// makeAccount creates the account of a ready binding again. It keeps the instance locked, so that no operation on it
// can begin. If this process is paused and loses that lock, the session lock keeps it and a new operation from running
// at the same time.
func (d *Doctor) makeAccount(ctx context.Context, f Finding) error {
	return d.Store.InTx(ctx, func(tx *store.Tx) error {
		i, b, err := lockReady(ctx, tx, f)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, makeTimeout)
		defer cancel()
		has := d.Plans.Get(i.PlanID)
		if has.Removed {
			return fmt.Errorf("plan %q is not in the catalog any more, and so its connection limit is not known", i.PlanID)
		}
		server, err := d.Fleet.Shared.Server(i.Location.Server)
		if err != nil {
			return err
		}
		found, err := server.DatabaseExists(ctx, i.Database)
		if err == nil && !found {
			err = errors.New("its database is missing")
		}
		if err != nil {
			return err
		}
		return d.onServer(ctx, f, fleet.BindingLock(i.ID, b.ID), func() error { return tx.Alive(ctx) },
			func(s *mysqladmin.Session) error {
				return s.Accounts.Create(ctx, fleet.AccountOf(i, b, has))
			})
	})
}

// lockReady locks the instance of a binding and reads both. It returns errChanged unless both are still ready and no
// task works on them.
func lockReady(ctx context.Context, tx *store.Tx, f Finding) (i store.Instance, b store.Binding, err error) {
	there, err := tx.Begin(ctx, f.InstanceID, f.BindingID)
	if errors.Is(err, store.ErrNotFound) || err == nil && there.Binding == nil {
		return i, b, errChanged
	}
	if err != nil {
		return i, b, fmt.Errorf("read the binding: %w", err)
	}
	i, b = there.Instance, *there.Binding
	busy := there.Task("") != nil || there.Task(b.ID) != nil
	if busy || i.State != store.Ready || b.State != store.Ready || i.Location.Server != f.Server || b.Account != f.Name {
		return i, b, errChanged
	}
	return i, b, nil
}

// noLease is for orphans, which need no lease: it does not matter who drops them, or when.
func noLease() error { return nil }

func orphanLock(f Finding) string { return fmt.Sprintf("orphan %s %q", f.Kind, f.Name) }

func (d *Doctor) onServer(ctx context.Context, f Finding, lock string, alive func() error,
	fn func(*mysqladmin.Session) error) error {
	server, err := d.Fleet.Shared.Server(f.Server)
	if err != nil {
		return err
	}
	session, err := server.Lock(ctx, lock, alive)
	if err != nil {
		return fmt.Errorf("take the session lock: %w", err)
	}
	defer session.Close() // after a failure it discards the connection, which releases the lock too
	return fn(session)
}
