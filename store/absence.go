package store

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
)

// A platform that is told that an instance is gone never asks about it again: no PUT that a broker began to process
// before may make it afterwards. Such a PUT may be anywhere: in another replica, on its way to PostgreSQL, in a commit
// that hangs. Two things see to the order, and both exist before the instance's row does.
//
// The lock of an id orders transactions. Whoever inserts the row holds it until the commit has returned, its wait for a
// standby included; whoever finds no row takes it, and then looks again.
//
// What has not come to PostgreSQL yet is told apart by what the platform was told last: the end of a deprovision, which
// its task says, or a 410, which the table absence says. An instance is inserted only where the platform was told
// nothing within keepAbsences, or just that which its request is known to be newer than (see OrderAbsence).

// keepAbsences is how long a statement that a broker has sent may take to come to PostgreSQL: it is longer than any
// network or kernel keeps it.
const keepAbsences = time.Hour

// errIDLocked is a wait for an id's lock that was too long.
var errIDLocked = errors.New("store: an instance of this id is being recorded for too long")

// lockID keeps others that record an instance of this id, or say that there is none, waiting until this transaction is
// over. https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS
func (t *Tx) lockID(id string) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(id))                                               // it never fails
	t.write(waitForID, "SELECT pg_advisory_xact_lock($1)", int64(hash.Sum64())) // #nosec G115 -- any number is good
}

const waitForID = "wait for whoever records an instance of this id"

// toldGone is when the platform was told last that the instance $1 is gone, if that is not long ago, else NULL. The
// comparison is coalesced lest PostgreSQL look for the task among all that ended lately.
var toldGone = fmt.Sprintf(`SELECT max(at) FROM (
	SELECT reported_at FROM absence WHERE instance_id = $1
	UNION ALL SELECT finished_at FROM task
		WHERE instance_id = $1 AND binding_id = '' AND kind = 'deprovision' AND state = 'succeeded') AS reported (at)
	WHERE coalesce(at > now() - '%d s'::interval, false)`, int(keepAbsences.Seconds()))

// BeginAbsent is Begin where that has found no instance: it waits for whoever records one, and looks again. ErrNotFound
// then means that the platform may be told so once the transaction is committed. Where the wait is too long, the error
// is ErrUnavailable: nobody knows what there is.
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

// InstanceAfterOthers is Instance after a wait for whoever records one of this id.
func (s *Store) InstanceAfterOthers(ctx context.Context, id string) (i Instance, err error) {
	err = s.InTx(ctx, func(tx *Tx) error {
		tx.waitLonger()
		tx.lockID(id)
		return read(ctx, tx, rowLockTime, &i, s.keys.scanInstance, selectInstance, id)
	})
	return i, unknown(err)
}

// waitLonger has this transaction wait for locks for longer than a broker waits for a commit: by then it has told
// PostgreSQL not to wait for a standby any more, and what it has recorded is there.
func (t *Tx) waitLonger() {
	t.write("wait longer for locks", fmt.Sprintf("SELECT set_config('lock_timeout', '%d', true)",
		(statementTime+2*time.Second).Milliseconds()))
}

// unknown tells the wait for an id's lock, which says nothing about the instance, from the wait for its row.
func unknown(err error) error {
	if errors.Is(err, errIDLocked) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// Order is whether something was before or after something else.
type Order int

// Orders of a request and of what a platform was told.
const (
	Unclear Order = iota // it cannot be told: within less than a round trip, or PostgreSQL's clock was set back
	Before
	After
)

// orderSamples is how often PostgreSQL's clock is asked for at most: each time tells the order unless the two moments
// are closer to each other than the round trip took.
const orderSamples = 5

// OrderAbsence tells when the platform was told last that an instance is gone, nil if it was not lately, and whether a
// broker received a request before or after that. Each look at PostgreSQL's clock between two looks at this process's
// tells between which two times of PostgreSQL's that was. Should PostgreSQL's clock be set forward between what was
// told and this look, a request that is older by less than that seems to be newer.
func (s *Store) OrderAbsence(ctx context.Context, instanceID string, received time.Time) (*time.Time, Order, error) {
	type look struct {
		Reported *time.Time
		Now      time.Time
	}
	var last *time.Time
	for range orderSamples {
		before := time.Now()
		l, err := oneRow(ctx, s.pool, pgx.RowToStructByPos[look], "SELECT ("+toldGone+"), clock_timestamp()", instanceID)
		after := time.Now()
		if err != nil {
			return nil, Unclear, err
		}
		if l.Reported == nil {
			return nil, After, nil
		}
		last = l.Reported
		earliest, latest := l.Now.Add(-elapsed(received, after)), l.Now.Add(-before.Sub(received))
		switch {
		case l.Reported.After(l.Now): // the clock was set back
			return last, Unclear, nil
		case latest.Before(*l.Reported):
			return last, Before, nil
		case earliest.After(*l.Reported):
			return last, After, nil
		}
	}
	return last, Unclear, nil
}

// elapsed is the time that has passed, that during which the machine stood still included, which the monotonic clock
// does not count.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// ForgetAbsences removes what platforms were told so long ago that no request can be older, and says how much.
func (s *Store) ForgetAbsences(ctx context.Context) (forgotten int64, err error) {
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
