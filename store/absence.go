package store

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
)

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
	for {
		since := time.Now()
		tag, err := s.db.Exec(ctx, `DELETE FROM absence WHERE instance_id IN (SELECT instance_id FROM absence
			WHERE reported_at < now() - $1::interval LIMIT $2 FOR UPDATE SKIP LOCKED)`, 2*keepAbsences, batchRows)
		forgotten += tag.RowsAffected()
		if err != nil || tag.RowsAffected() < batchRows {
			return forgotten, err
		}
		if err := rest(ctx, since); err != nil {
			return forgotten, err
		}
	}
}
