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

// RecordProvision records a new instance with the task that is to make it and, if it is to be on a shared server, takes
// a place there. max is how many instances the server takes, load how many it holds then. It changes nothing if it
// returns ErrExists, ErrServerFull or ErrHeld. All goes in one round trip, so that each statement sees for itself
// whether the one that inserts the instance did so; database names are never used twice.
//
// asked is when it was asked for. A broker that was paused since then must not begin what the platform has given up and
// found to be absent: after 10 seconds, it is ErrUnavailable. For what begins with a lock, PostgreSQL sees to that.
//
// told is when the platform was told last that there is no such instance, if that was lately and is known to be
// before the request; else it is nil.
func (s *Store) RecordProvision(ctx context.Context, asked time.Time, told *time.Time, i Instance, n NewTask,
	max int) (t Task, load int, err error) {
	var insertion insertion
	placed := new(bool)
	err = s.InTx(ctx, func(tx *Tx) error {
		tx.lockID(i.ID)
		if err := tx.insertInstance(&insertion, i, told); err != nil {
			return err
		}
		tx.insertTask(&t, n, i.Database)
		if i.Location.Shared() { // last, as all provisions on that server wait for it
			placed = tx.takePlace(&load, i, max)
		}
		if late := time.Since(asked); late > silenceTime {
			return fmt.Errorf("%w: it was asked for %v ago", ErrUnavailable, late)
		}
		return nil
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
	return t, load, nil
}

// takePlace counts one more instance on a shared server. Where the server takes no more, it deletes what this
// transaction has recorded of the instance, and load stays as it is.
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
				AND instance_id = $2 AND binding_id = '' AND `+notEnded+`),
		refused_database AS (
			DELETE FROM resource WHERE EXISTS (SELECT FROM refused)
				AND kind = 'database' AND server = $1 AND name = $3)
		SELECT instances FROM placed`, i.Location.Server, i.ID, i.Database, max)
}

// Beginning is what there is when an operation on an instance or one of its bindings begins.
type Beginning struct {
	Instance Instance
	Active   []Task           // in progress, of the instance and of its bindings
	Binding  *Binding         // nil if there is none, or none was asked for
	Accounts []BindingAccount // as Store.Accounts lists them, if no binding was asked for
	Bindings int              // of the instance, those included that are being made or ended; see BeginBind
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

// Begin locks an instance as LockInstance does, and reads it with its tasks in progress and either one binding or, with
// bindingID "", all its accounts, or returns ErrNotFound if there is no instance. The tasks are read before the
// binding: one that ends in between has left its mark there. InsertTask goes by the Hold that Begin has found.
func (t *Tx) Begin(ctx context.Context, instanceID, bindingID string) (Beginning, error) {
	return t.beginning(ctx, instanceID, bindingID, false)
}

// BeginBind is Begin for a new binding: it counts the instance's bindings too. Nobody adds one while the instance is
// locked.
func (t *Tx) BeginBind(ctx context.Context, instanceID, bindingID string) (Beginning, error) {
	return t.beginning(ctx, instanceID, bindingID, true)
}

func (t *Tx) beginning(ctx context.Context, instanceID, bindingID string, count bool) (b Beginning, err error) {
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
	if count {
		expectRow(t, &b.Bindings, pgx.RowTo[int], countBindings, instanceID)
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
