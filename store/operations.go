package store

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrExists is returned when an instance with the same id is recorded already, or may not be recorded:
// see ReportedAbsent.
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
	// begin what the platform has given up and found to be absent. Operations that begin with the lock of an instance need
	// no such limit: PostgreSQL ends the transaction of a broker that is silent for as long.
	At time.Time
	// Absent is when the platform was last told that there is no such instance, as ReportedAbsent returns it.
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
// changed nothing.
func (s Instances) RecordProvision(ctx context.Context, asked Asked, i Instance, n NewTask,
	room Room) (t Task, load int, err error) {
	var recorded *Task
	err = s.inTx(ctx, func(tx *Tx) error {
		tx.lockID(i.ID)
		if err := tx.insertNew(ctx, i, asked.Absent); err != nil {
			return err
		}
		if err := tx.within(ctx, room.Within, i); err != nil {
			return err
		}
		if i.Location.Shared() { // right before the commit, as all provisions on that server wait for it
			if load, err = tx.takePlace(ctx, i.Location.Server, room.OnServer); err != nil {
				return err
			}
		}
		recorded = tx.InsertTask(n)
		return asked.inTime()
	})
	if err != nil {
		return t, 0, err
	}
	return *recorded, load, nil
}

// within returns the error of check, which may be nil, for an instance that was inserted.
func (t *Tx) within(ctx context.Context, check func(InstanceCounts) error, i Instance) error {
	if check == nil {
		return nil
	}
	counts, err := t.CountInstances(ctx, i.OrganizationGUID, i.PlanID)
	if err != nil {
		return err
	}
	return check(counts)
}

// takePlace counts one more instance on a shared server, and returns how many it holds then. If the server is full or
// drained, it returns ErrServerFull.
func (t *Tx) takePlace(ctx context.Context, server string, max int) (load int, err error) {
	err = read(ctx, t, rowLockTime, &load, pgx.RowTo[int], `INSERT INTO server (name, instances) VALUES ($1, 1)
		ON CONFLICT (name) DO UPDATE SET instances = server.instances + 1
			WHERE server.instances < $2 AND server.drained_since IS NULL
		RETURNING instances`, server, max)
	if errors.Is(err, ErrNotFound) {
		err = ErrServerFull
	}
	return load, err
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

// Once a platform was told that an instance does not exist, it never asks about it again. So a PUT that a broker began
// to process before that must not create the instance afterwards. Such a PUT may be anywhere: in another replica, on
// its way to PostgreSQL, in a commit that hangs. Two mechanisms order them. Both work before the instance has a row.
//
// The lock of an id orders transactions. A transaction that inserts the row holds the lock until the commit has
// returned, its wait for a standby included. A transaction that finds no row takes the lock, and then looks again.
//
// For a PUT that has not reached PostgreSQL yet, the time counts at which the platform was last told that there is no
// instance: at the end of a deprovision, which its task records, or by a 410, which the table absence records. An
// instance is inserted only if there was no such response within keepAbsences, or if the request is not known to be
// older than the last one, and its client still waits (see ReportedAbsent).

// keepAbsences is longer than any network or kernel keeps a statement on its way to PostgreSQL.
const keepAbsences = time.Hour

// errIDLocked says that a transaction waited too long for the lock of an id.
var errIDLocked = errors.New("store: an instance of this id is being recorded for too long")

// lockID takes the lock of an id until the transaction ends. Others that record an instance of this id, or report that
// there is none, wait. https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS
func (t *Tx) lockID(id string) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(id))                                               // it never fails
	t.write(waitForID, "SELECT pg_advisory_xact_lock($1)", int64(hash.Sum64())) // #nosec G115 -- any number is good
}

const waitForID = "wait for others that record an instance of this id"

// reportedGone is the SQL for when the platform was last told that the instance $1 does not exist, NULL if that is
// longer ago than keepAbsences. Because of coalesce, PostgreSQL does not search the index of all tasks that ended
// recently.
var reportedGone = fmt.Sprintf(`SELECT max(at) FROM (
	SELECT reported_at FROM absence WHERE instance_id = $1
	UNION ALL SELECT finished_at FROM task
		WHERE instance_id = $1 AND binding_id = '' AND kind = 'deprovision' AND state = 'succeeded') AS reported (at)
	WHERE coalesce(at > now() - '%d s'::interval, false)`, int(keepAbsences.Seconds()))

// BeginAbsent is for when Begin has found no instance: it waits until nobody is recording one, and looks again. If it
// returns ErrNotFound, the platform may be told so once the transaction is committed. If the wait is too long, it
// returns ErrUnavailable.
func (t *Tx) BeginAbsent(ctx context.Context, instanceID string) (Beginning, error) {
	t.waitLonger()
	t.lockID(instanceID)
	b, err := t.Begin(ctx, instanceID, "")
	if errors.Is(err, ErrNotFound) {
		t.write("record that there is no instance", `INSERT INTO absence (instance_id, reported_at)
			VALUES ($1, clock_timestamp())
			ON CONFLICT (instance_id) DO UPDATE SET reported_at = excluded.reported_at`, instanceID)
	}
	return b, unknown(err)
}

// AfterOthers is Instance after a wait until nobody is recording one of this id.
func (s Instances) AfterOthers(ctx context.Context, id string) (i Instance, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		tx.waitLonger()
		tx.lockID(id)
		return read(ctx, tx, rowLockTime, &i, s.keys.scanInstance, selectInstance, id)
	})
	return i, unknown(err)
}

// waitLonger makes this transaction wait for locks for longer than a broker waits for a commit. By then that broker has
// cancelled the commit's wait for a standby, and what it has recorded is visible.
func (t *Tx) waitLonger() {
	t.write("wait longer for locks", fmt.Sprintf("SELECT set_config('lock_timeout', '%d', true)",
		(statementTime+2*time.Second).Milliseconds()))
}

// unknown marks a wait for the lock of an id as ErrUnavailable: nothing is known about the instance then.
func unknown(err error) error {
	if errors.Is(err, errIDLocked) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// ReportedAbsent returns when the platform was last told that an instance does not exist, nil if it was not recently.
// since says that this was certainly after a broker had received a request. It reads PostgreSQL's clock once the age of
// the request is known, so that by that clock, the request came then or earlier. If PostgreSQL's clock was set forward
// since the platform was told, a request that is older by less than that seems to be newer.
func (s Instances) ReportedAbsent(ctx context.Context, instanceID string,
	received time.Time) (reported *time.Time, since bool, err error) {
	type look struct {
		Reported *time.Time
		Now      time.Time
	}
	age := time.Since(received)
	l, err := oneRow(ctx, s.pool, pgx.RowToStructByPos[look], "SELECT ("+reportedGone+"), clock_timestamp()", instanceID)
	if err != nil || l.Reported == nil {
		return nil, false, err
	}
	setBack := l.Reported.After(l.Now)
	return l.Reported, !setBack && l.Now.Add(-age).Before(*l.Reported), nil
}

// ForgetAbsences deletes absences that platforms were told so long ago that no request can be older, and returns how
// many.
func (s Instances) ForgetAbsences(ctx context.Context) (forgotten int64, err error) {
	return s.deleteOlder(ctx, `DELETE FROM absence WHERE instance_id IN (SELECT instance_id FROM absence
		WHERE reported_at < now() - $1::interval LIMIT $2 FOR UPDATE SKIP LOCKED)`, 2*keepAbsences)
}
