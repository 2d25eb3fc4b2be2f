package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrExists is returned when an instance with the same id is recorded already, or may not be recorded:
// see OrderAbsence.
var ErrExists = errors.New("store: exists already")

// ErrServerFull is returned when a shared server holds as many instances as it may, or is drained.
var ErrServerFull = errors.New("store: server is full")

// Room says how many instances there may be.
type Room struct {
	OnServer int                        // on the shared server of a new one
	Within   func(InstanceCounts) error // refuses a new one; nil if there is no limit
}

// Asked says when a new instance was asked for.
type Asked struct {
	// At is the time of the request. More than silenceTime later, nothing is recorded: a broker that was paused must not
	// begin what the platform has given up and found to be absent.
	At time.Time
	// Absent is when the platform was last told that there is no such instance, if that was recent and is known to be
	// before the request; else it is nil. See OrderAbsence.
	Absent *time.Time
}

// inTime returns ErrUnavailable if the request is too old.
func (a Asked) inTime() error {
	if late := time.Since(a.At); late > silenceTime {
		return fmt.Errorf("%w: the request is %v old", ErrUnavailable, late)
	}
	return nil
}

// RecordProvision records a new instance with its task and, on a shared server, counts it there. load is how many
// instances the server holds then. If it returns ErrExists, ErrServerFull, ErrHeld or an error of Room.Within, it has
// changed nothing. All statements go in one round trip, or in two with Room.Within, so that each checks itself whether
// the instance was inserted, by its database's name, which is never used twice.
//
// For operations that begin with a lock, PostgreSQL ends the transaction of a broker that was paused (see silenceTime);
// here, asked does that.
func (s *Store) RecordProvision(ctx context.Context, asked Asked, i Instance, n NewTask,
	room Room) (t Task, load int, err error) {
	var insertion insertion
	placed := new(bool)
	err = s.InTx(ctx, func(tx *Tx) error {
		tx.lockID(i.ID)
		if err := tx.insertInstance(&insertion, i, asked.Absent); err != nil {
			return err
		}
		tx.insertTask(&t, n, i.Database)
		if err := tx.within(ctx, room.Within, i, &insertion); err != nil {
			return err
		}
		if i.Location.Shared() { // last, as all provisions on that server wait for it
			placed = tx.takePlace(&load, i, room.OnServer)
		}
		return asked.inTime()
	})
	switch {
	case err != nil:
		return t, load, err
	case insertion.Held:
		return t, load, ErrHeld
	case !insertion.Done:
		return t, load, ErrExists
	case i.Location.Shared() && !*placed:
		return t, load, ErrServerFull
	}
	s.failover.recorded(t)
	return t, load, nil
}

// within returns the error of check for an instance that was inserted.
func (t *Tx) within(ctx context.Context, check func(InstanceCounts) error, i Instance, done *insertion) error {
	if check == nil {
		return nil
	}
	counts, err := t.CountInstances(ctx, i.OrganizationGUID, i.PlanID)
	if err != nil || !done.Done {
		return err
	}
	return check(counts)
}

// takePlace counts one more instance on a shared server. If the server is full or drained, it deletes what this
// transaction has recorded of the instance, and load does not change.
func (t *Tx) takePlace(load *int, i Instance, max int) (placed *bool) {
	return expectRow(t, load, pgx.RowTo[int], `WITH placed AS (
			INSERT INTO server (name, instances)
			SELECT $1, 1 WHERE EXISTS (SELECT FROM instance WHERE id = $2 AND database_name = $3)
			ON CONFLICT (name) DO UPDATE SET instances = server.instances + 1
				WHERE server.instances < $4 AND server.drained_since IS NULL
			RETURNING instances),
		refused AS (
			DELETE FROM instance WHERE id = $2 AND database_name = $3 AND NOT EXISTS (SELECT FROM placed)
			RETURNING id),
		refused_task AS (
			DELETE FROM task WHERE EXISTS (SELECT FROM refused)
				AND instance_id = $2 AND binding_id = '' AND `+notEnded+`
			RETURNING id),
		refused_entry AS (
			DELETE FROM audit WHERE task_id IN (SELECT id FROM refused_task)),
		refused_database AS (
			DELETE FROM resource WHERE EXISTS (SELECT FROM refused)
				AND kind = 'database' AND server = $1 AND name = $3)
		SELECT instances FROM placed`, i.Location.Server, i.ID, i.Database, max)
}

// Beginning is what is recorded of an instance when an operation on it or on a binding begins.
type Beginning struct {
	Instance Instance
	Active   []Task           // in progress, of the instance and of its bindings
	Binding  *Binding         // nil if there is none, or Begin had no binding id
	Accounts []BindingAccount // as Store.Accounts lists them, if Begin had no binding id

	// After BeginBind:
	Bindings    int      // of the instance, in any state
	Predecessor *Binding // nil if there is none
	Now         time.Time
	Expired     bool // the binding has ended by itself, and the platform has not deleted it
}

// Task finds the task in progress of a binding, or of the instance itself (bindingID ""), or nil.
func (b Beginning) Task(bindingID string) *Task {
	for _, t := range b.Active {
		if t.BindingID == bindingID {
			return &t
		}
	}
	return nil
}

// Begin locks an instance as LockInstance does. It reads the instance with its tasks in progress and either one binding
// or, with bindingID "", all its accounts. Without the instance it returns ErrNotFound. The tasks are read before the
// binding, which then has the outcome of a task that ends in between. InsertTask heeds a Hold that Begin has found.
func (t *Tx) Begin(ctx context.Context, instanceID, bindingID string) (Beginning, error) {
	return t.beginning(ctx, instanceID, bindingID, nil)
}

// BeginBind is Begin for a new binding. It also reads the binding that it succeeds (predecessorID "" for none), and
// counts the instance's bindings, which cannot change while the instance is locked.
func (t *Tx) BeginBind(ctx context.Context, instanceID, bindingID, predecessorID string) (Beginning, error) {
	var predecessor Binding
	found := new(bool)
	b, err := t.beginning(ctx, instanceID, bindingID, func(b *Beginning) {
		expectRow(t, &b.Bindings, pgx.RowTo[int], countBindings, instanceID)
		expectRow(t, &b.Now, pgx.RowTo[time.Time], "SELECT now()")
		expectRow(t, &b.Expired, pgx.RowTo[bool], "SELECT EXISTS ("+expiredBinding+")", instanceID, bindingID)
		if predecessorID != "" {
			found = expectRow(t, &predecessor, t.keys.scanBinding, selectBinding, instanceID, predecessorID)
		}
	})
	if err == nil && *found {
		b.Predecessor = &predecessor
	}
	return b, err
}

// beginning calls more, if it is not nil, to queue further queries.
func (t *Tx) beginning(ctx context.Context, instanceID, bindingID string, more func(*Beginning)) (b Beginning,
	err error) {
	var binding Binding
	found := expectRow(t, &b.Instance, t.keys.scanInstance, lockInstance, instanceID)
	expectRow(t, &t.hold, pgx.RowTo[bool], "SELECT "+isHeld)
	expectRows(t, &b.Active, scanTask, activeTasks, instanceID)
	bound := new(bool)
	if bindingID != "" {
		bound = expectRow(t, &binding, t.keys.scanBinding, selectBinding, instanceID, bindingID)
	} else {
		expectRows(t, &b.Accounts, scanAccount, selectAccounts, instanceID)
	}
	if more != nil {
		more(&b)
	}
	if err := t.flush(ctx, rowLockTime); err != nil {
		return b, err
	}
	if !*found {
		return b, ErrNotFound
	}
	if *bound {
		b.Binding = &binding
	}
	return b, nil
}
